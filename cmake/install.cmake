# `cmake --install`: the command, the static library in one file, the headers, the workers, pkg-config.
include(GNUInstallDirs)
