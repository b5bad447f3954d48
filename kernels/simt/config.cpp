// The limits of a launch: CUDA C++ Programming Guide, "Technical specifications per compute
// capability"; the same numbers from 8.0 to 9.0, but shared memory, which is an H100's.

#include "kernels/simt/config.hpp"

#include <fmt/format.h>

#include "kernels/simt/error.hpp"

namespace ultra::simt {
namespace {

std::string to_text(const Extents& extents) {
  return fmt::format("({}, {}, {})", extents.x, extents.y, extents.z);
}

[[noreturn]] void refuse(const Config& config, const std::string& found, const char* expected) {
  throw SimtError(Fault::kLaunch,
                  fmt::format("launch of {}: {}, expected {}.", config.name, found, expected));
}

bool fits(const Extents& extents, const Extents& most) {
  return extents.count() > 0 && extents.x <= most.x && extents.y <= most.y && extents.z <= most.z;
}

}  // namespace

void check_config(const Config& config) {
  if (!fits(config.grid, {.x = 2147483647, .y = 65535, .z = 65535})) {
    refuse(config, "the grid is " + to_text(config.grid),
           "1 to (2147483647, 65535, 65535) blocks. Hint: with nothing to do, launch nothing");
  }
  if (!fits(config.block, {.x = 1024, .y = 1024, .z = 64})) {
    refuse(config, "the block is " + to_text(config.block), "1 to (1024, 1024, 64) threads");
  }
  if (config.block.count() > kMostThreads) {
    refuse(config,
           fmt::format("the block is {}: {} threads", to_text(config.block), config.block.count()),
           "at most 1024. Hint: let each thread do more than one element");
  }
  if (config.shared_bytes > kMostSharedBytes) {
    refuse(config, fmt::format("{} bytes of dynamic shared memory", config.shared_bytes),
           "at most 232448 (227 KiB). Hint: take a smaller tile");
  }
}

}  // namespace ultra::simt
