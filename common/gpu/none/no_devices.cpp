// The devices of a program that was built without any.

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/gpu/runtime.hpp"

namespace ultra::gpu {
namespace {

[[noreturn]] void refuse(std::string_view device) {
  throw ConfigError(
      fmt::format("device {0}: this program was built for the CPU alone. ./workbook run NN "
                  "--device {0} builds what "
                  "it needs first; with cmake: -D ULTRA_DEVICES=ON, then build again.",
                  device));
}

}  // namespace

std::shared_ptr<Runtime> make_cuda_runtime(int) { refuse("cuda"); }
std::shared_ptr<Runtime> make_emulated_runtime() { refuse("emulated"); }

}  // namespace ultra::gpu
