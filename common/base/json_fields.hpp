#pragma once
/// @file
/// JsonFields: reads an object of a JSON file, and says in words what is wrong with it.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.hpp"

namespace ultra {

/// @brief One object of a file; remembers where it stands.
class JsonFields {
 public:
  /// @brief The object that a file holds.
  /// @throws FileError when it cannot be read (see text_of_file()), is too large or no JSON, or
  /// holds no object.
  [[nodiscard]] static JsonFields of_file(const std::string& path);
  /// @brief An object in memory, called `where` in messages.
  /// @throws FileError when it is not an object.
  JsonFields(Json object, std::string where);

  /// @brief Whether the key is there, and not null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// @brief The number under a key.
  /// @throws FileError when it is missing or no finite number.
  [[nodiscard]] double number(std::string_view key) const;
  /// @brief The number under a key, or another where there is none.
  [[nodiscard]] double number_or(std::string_view key, double otherwise) const;
  /// @brief The whole number above 0 under a key.
  /// @throws FileError when it is missing or anything else.
  [[nodiscard]] std::size_t count(std::string_view key) const;
  /// @brief The whole number above 0 under a key, or another where there is none.
  [[nodiscard]] std::size_t count_or(std::string_view key, std::size_t otherwise) const;
  /// @brief The text under a key.
  /// @throws FileError when it is missing or no text.
  [[nodiscard]] std::string text(std::string_view key) const;
  /// @brief The text under a key, or another where there is none.
  [[nodiscard]] std::string text_or(std::string_view key, std::string_view otherwise) const;
  /// @brief The bool under a key, or another where there is none.
  /// @throws FileError when it is neither true nor false.
  [[nodiscard]] bool flag_or(std::string_view key, bool otherwise) const;
  /// @brief The object under a key.
  /// @throws FileError when it is missing or no object.
  [[nodiscard]] JsonFields object(std::string_view key) const;
  /// @brief The objects of the list under a key; none when there is no such key.
  /// @throws FileError when it is not a list of objects.
  [[nodiscard]] std::vector<JsonFields> objects(std::string_view key) const;
  /// @brief Checks that all keys are among those known.
  /// @throws FileError naming the first that is not, with those that are.
  void expect_only(const std::vector<std::string_view>& keys) const;
  /// @brief The object.
  [[nodiscard]] const Json& json() const { return object_; }

  /// @brief Where the object stands: for messages.
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  [[nodiscard]] const Json& at(std::string_view key) const;

  Json object_;
  std::string where_;
};

}  // namespace ultra
