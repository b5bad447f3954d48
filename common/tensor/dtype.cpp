#include "common/tensor/dtype.hpp"

#include <fmt/format.h>

#include "common/base/text.hpp"

namespace ultra {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kI32:
      return "i32";
  }
  return "?";
}

DType parse_float_dtype(const std::string& text) {
  if (text == "f32") return DType::kF32;
  if (text == "f64") return DType::kF64;
  throw ConfigError(fmt::format("dtype {} is unknown. Use f32 or f64.", in_quotes(text)));
}

}  // namespace ultra
