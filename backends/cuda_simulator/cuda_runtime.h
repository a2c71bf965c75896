// CUDA on the host: a source that includes this header runs on a simulated device, one fiber for each thread.
//
// A C++17 compiler finds this file in place of CUDA's own. Python's `translate` rewrites the only two pieces of
// syntax that C++ lacks: launches, to SIMULATOR_LAUNCH, and `extern __shared__` arrays.
#pragma once
#define CUDA_SIMULATOR 1

#include <stdlib.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // they take most of the time that libstdc++'s <cmath> does
#include <cmath>

#include "machine/arithmetic.h"
#include "machine/atomics.h"
#include "machine/copies.h"
#include "machine/device.h"
#include "machine/errors.h"
#include "machine/events.h"
#include "machine/graphs.h"
#include "machine/launch.h"
#include "machine/matrices.h"
#include "machine/memory.h"
#include "machine/qualifiers.h"
#include "machine/tensor_cores.h"
#include "machine/vectors.h"
#include "machine/warp.h"
