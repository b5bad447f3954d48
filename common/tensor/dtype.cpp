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
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
  }
  return "?";
}

DType parse_float_dtype(const std::string& text) {
  if (text == "f32") return DType::kF32;
  if (text == "f64") return DType::kF64;
  throw ConfigError(fmt::format("dtype {} is unknown. Use f32 or f64.", in_quotes(text)));
}

void throw_unexpected_dtype(DType found, std::string_view expected) {
  throw ShapeError(fmt::format("expected a tensor of {}, found {}", expected, to_string(found)));
}

}  // namespace ultra
