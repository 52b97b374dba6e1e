/* conformance.c -- one suite for all workers. */
int main(void) { return 0; }
