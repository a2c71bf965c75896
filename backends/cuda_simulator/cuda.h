// What CUDA's header of the driver declares, as far as emitted code uses it: tensor maps.
#pragma once
#include "cuda_runtime.h"
