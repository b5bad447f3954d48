#pragma once
/// @file
/// Whole numbers in JSON that somebody may have damaged.

#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>

namespace ultra::zero {

/// @brief The member of an object, if it is a whole number that the type can hold.
/// @throws nlohmann::json::exception for anything else: the library itself converts silently.
template <std::integral T, class Json>
[[nodiscard]] T whole_number_in(const Json& object, const char* name) {
  const Json& value = object.at(name);
  const bool fits =
      value.is_number_unsigned() && value.template get<std::uint64_t>() <=
                                        static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  if (!fits) {
    throw nlohmann::json::type_error::create(
        302, std::string("'") + name + "' is " + value.dump() + ", no whole number of its size",
        &value);
  }
  return value.template get<T>();
}

}  // namespace ultra::zero
