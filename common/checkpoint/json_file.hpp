#pragma once
/// @file
/// JSON files of a checkpoint or a model that somebody may have damaged: read with limits, refused in
/// words.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/files/file_layer.hpp"

namespace ultra::checkpoint {

/// @brief Most bytes of a JSON file that is read: the losses of 10 million steps take less.
inline constexpr std::uint64_t kMaxJsonFileBytes = 1'000'000'000;

/// @brief Lists and objects in each other, at most; those of a checkpoint need 3.
inline constexpr int kMaxJsonDepth = 16;

/// @brief The whole content of a file.
/// @throws FileError when it cannot be read, or has more than kMaxJsonFileBytes.
[[nodiscard]] std::string read_text(FileLayer& files, const std::filesystem::path& path,
                                    FileOf owner = FileOf::kCheckpoint);

/// @brief A text as JSON.
/// @param path  of its file, for messages.
/// @throws FileError when it is no JSON, or is nested too deep.
[[nodiscard]] nlohmann::json parse_json(const std::string& text, const std::string& path,
                                        FileOf owner = FileOf::kCheckpoint);

/// @brief JSON from a file, for a message: on one line, in ASCII, cut off when long.
[[nodiscard]] std::string shown_json(const nlohmann::json& json);

/// @brief What is wrong with a file, from what the library says of the program's step: "it has no
/// 'name'" for "key 'name' not found".
[[nodiscard]] std::string said_of_file(const nlohmann::json::exception& error);

/// @brief Throws FileError "... is damaged: ..." for what the library says.
[[noreturn]] void report_json(const std::string& path, const nlohmann::json::exception& error,
                              FileOf owner = FileOf::kCheckpoint);

/// @brief What `read` makes of a text's JSON.
/// @param path  of its file, for messages.
/// @throws FileError when it is no JSON, or lacks what `read` asks of it.
template <std::invocable<const nlohmann::json&> Read>
[[nodiscard]] auto read_json(const std::string& text, const std::string& path, const Read& read,
                             FileOf owner = FileOf::kCheckpoint) {
  try {
    return read(parse_json(text, path, owner));
  } catch (const nlohmann::json::exception& error) {
    report_json(path, error, owner);
  }
}

/// @brief The member of an object, of the type that belongs there.
/// @param expected  that type in words: "a number".
/// @throws nlohmann::json::exception that names it and shows what it is.
template <class T>
[[nodiscard]] T member_in(const nlohmann::json& object, const char* name, const char* expected) {
  const nlohmann::json& value = object.at(name);
  // The library itself makes a number of a truth value.
  const bool is_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
  try {
    if (!is_number || value.is_number()) return value.get<T>();
  } catch (const nlohmann::json::type_error&) {
    // The name is missing in it.
  }
  throw nlohmann::json::type_error::create(
      302, std::string("'") + name + "' is " + shown_json(value) + ", expected " + expected,
      &value);
}

/// @brief The member of an object, if it is a whole number that the type can hold.
/// @throws nlohmann::json::exception for anything else: the library itself converts silently.
template <std::integral T>
[[nodiscard]] T whole_number_in(const nlohmann::json& object, const char* name) {
  const nlohmann::json& value = object.at(name);
  const bool fits =
      value.is_number_unsigned() &&
      value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  if (!fits) {
    throw nlohmann::json::type_error::create(
        302,
        std::string("'") + name + "' is " + shown_json(value) + ", no whole number of its size",
        &value);
  }
  return value.get<T>();
}

}  // namespace ultra::checkpoint
