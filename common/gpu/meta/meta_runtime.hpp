#pragma once
/// @file
/// make_meta_runtime: a device that computes nothing, of any size.

#include <memory>

#include "common/gpu/runtime.hpp"

namespace ultra::gpu {

class Tape;

/// @brief A device without memory, whose streams are MetaStreams: addresses are distinct
/// and the same in every run, kernels do nothing, pinned memory is the host's.
/// @param tape          outlives the runtime.
/// @param checks_order  whether accesses without an order throw OrderError.
[[nodiscard]] std::shared_ptr<Runtime> make_meta_runtime(Tape& tape, bool checks_order);

}  // namespace ultra::gpu
