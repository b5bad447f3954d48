#pragma once
/// @file
/// JSON files of a checkpoint or a model that somebody may have damaged: read with limits, refused in
/// words.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "common/base/json.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/files/file_layer.hpp"

namespace ultra::checkpoint {

/// @brief Most bytes of a JSON file that is read: the losses of 10 million steps take less.
inline constexpr std::uint64_t kMaxJsonFileBytes = 1'000'000'000;

/// @brief How deep lists and objects may be nested; those of a checkpoint need 3.
inline constexpr std::size_t kMaxJsonDepth = 16;

/// @brief The whole content of a file.
/// @throws FileError when it cannot be read, or has more than kMaxJsonFileBytes.
[[nodiscard]] std::string read_text(FileLayer& files, const std::filesystem::path& path,
                                    FileOf owner = FileOf::kCheckpoint);

/// @brief A text as JSON.
/// @param path  of its file, for messages.
/// @throws FileError when it is not JSON, or is nested too deep.
[[nodiscard]] Json parse_json(const std::string& text, const std::string& path,
                              FileOf owner = FileOf::kCheckpoint);

/// @brief A text of a model's folder as a JSON object.
/// @param path  of its file, for messages.
/// @throws FileError when it is none.
[[nodiscard]] Json parse_object(const std::string& text, const std::string& path);

/// @brief JSON from a file, for a message: on one line, in ASCII, cut off when long.
[[nodiscard]] std::string shown_json(const Json& json);

/// @brief What `read` makes of a text's JSON.
/// @param path  of its file, for messages.
/// @throws FileError when it is not JSON, or lacks what `read` needs.
template <std::invocable<const Json&> Read>
[[nodiscard]] auto read_json(const std::string& text, const std::string& path, const Read& read,
                             FileOf owner = FileOf::kCheckpoint) {
  try {
    return read(parse_json(text, path, owner));
  } catch (const JsonError& error) {
    report_damaged(owner, path, error.what());
  }
}

/// @brief The member of an object, of the type that belongs there.
/// @param expected  that type in words: "a number".
/// @throws JsonError that names it and shows what it is.
template <class T>
[[nodiscard]] T member_in(const Json& object, const char* name, const char* expected) {
  const Json& value = object.at(name);
  try {
    return value.get<T>();
  } catch (const JsonError&) {
    throw JsonError(std::string("'") + name + "' is " + shown_json(value) + ", expected " +
                    expected);
  }
}

/// @brief The member of an object, if it is a whole number that the type can hold.
/// @throws JsonError for anything else.
template <std::integral T>
[[nodiscard]] T whole_number_in(const Json& object, const char* name) {
  const Json& value = object.at(name);
  try {
    return value.get<T>();
  } catch (const JsonError&) {
    throw JsonError(std::string("'") + name + "' is " + shown_json(value) +
                    ", no whole number of its size");
  }
}

}  // namespace ultra::checkpoint
