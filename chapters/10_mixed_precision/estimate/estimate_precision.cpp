#include "chapters/10_mixed_precision/estimate/estimate_precision.hpp"

#include <fmt/format.h>

#include "chapters/01_memory/estimate/model_presets.hpp"
#include "chapters/01_memory/memory.hpp"
#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

memory::Memory& memory_of(train::Setup& setup) {
  for (const auto& technique : setup.techniques) {
    if (auto* found = dynamic_cast<memory::Memory*>(technique.get())) return *found;
  }
  throw InternalError("a program without chapter 01");
}

}  // namespace

void pass_on_precision(train::Setup& setup, const PrecisionOptions& options) {
  memory::Memory& memory = memory_of(setup);
  if (options.estimate_only) {
    if (!memory.options().estimates()) {
      throw ConfigError(fmt::format(
          "--precision {} needs --estimate MODEL. For training use fp32, bf16, bf16-pure, fp16 or "
          "fp8; --dtype f64 for everything in f64.",
          memory::to_string(*options.estimate_only)));
    }
    memory.set_estimate_precision(*options.estimate_only);
  } else if (options.recipe_given && !options.is_mixed()) {
    memory.set_estimate_precision(memory::Precision::kFp32);
  }
}

}  // namespace ultra::mixed_precision
