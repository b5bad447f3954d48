#pragma once
/// @file
/// What a page calls: every figure answers a question in JSON with the programs' own functions.

#include <cstddef>

#include "common/base/json.hpp"

namespace ultra::site {

/// Memory of the GPU that figures ask about: 80 GB, as on the A100 and the H100.
inline constexpr std::size_t kGpuBytes = 80'000'000'000;

/// @brief The answer of this module's figure. Each module is linked with one definition.
/// @throws ConfigError, or JsonError, with a message for the reader.
[[nodiscard]] Json answer(const Json& question);

/// @brief A number of the question, or what it is when the question leaves it out.
template <class T>
[[nodiscard]] T value_of(const Json& question, const char* name, T otherwise) {
  return question.contains(name) ? question.at(name).get<T>() : otherwise;
}

}  // namespace ultra::site
