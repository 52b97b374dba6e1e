/* faults.h -- misbehaviour on request, for the tests of the host; no part of a worker. */
#ifndef VN_NULL_FAULTS_H
#define VN_NULL_FAULTS_H

#include "vernier/protocol.h"

/** Puts a layer around `ops` that takes the fault options out of argv and misbehaves at the time that `at=` names (default: run). */
void null_faults_wrap(vn_worker_ops_t *ops);

#endif
