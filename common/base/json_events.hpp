#pragma once
/// @file
/// JsonEvents: a text of JSON, piece by piece, for files that are too odd or too large for a Json.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ultra {

/// @brief Is told of each piece of a text as it is read. Any of its functions may throw.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  /// @brief Null.
  virtual void null() = 0;
  /// @brief True or false.
  virtual void boolean(bool value) = 0;
  /// @brief A whole number below 0.
  virtual void negative(std::int64_t value) = 0;
  /// @brief A whole number from 0 on.
  virtual void whole(std::uint64_t value) = 0;
  /// @brief Another number.
  /// @param text  how it is written.
  virtual void number(double value, const std::string& text) = 0;
  /// @brief A text, which may be taken.
  virtual void string(std::string& value) = 0;
  /// @brief A list begins: its elements follow.
  virtual void begin_array() = 0;
  /// @brief The innermost list ends.
  virtual void end_array() = 0;
  /// @brief An object begins: key and value in turn.
  virtual void begin_object() = 0;
  /// @brief The name of the next value, which may be taken.
  virtual void key(std::string& name) = 0;
  /// @brief The innermost object ends.
  virtual void end_object() = 0;

  /// @brief A number that no double holds; nothing follows.
  virtual void too_large(const std::string& text) = 0;
  /// @brief The text is not JSON; nothing follows.
  /// @param position  counted from 1; 0: at the beginning.
  virtual void no_json(std::size_t position) = 0;
};

/// @brief Reads a text.
void read_json_events(std::string_view text, JsonEvents& events);

/// @brief The place in a text that is not JSON, with what stands there: "at byte 9 of 11, at ...".
/// @param position  as no_json() is told.
[[nodiscard]] std::string shown_json_place(std::string_view text, std::size_t position);

}  // namespace ultra
