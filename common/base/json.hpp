#pragma once
/// @file
/// Json: a value of JSON. The library that reads and writes its text, nlohmann/json, takes seconds to
/// compile: json.cpp alone includes it.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/errors.hpp"

namespace ultra {

/// @brief A text that is not JSON, or a value of another kind than was asked for. Its message
/// follows the name of a file: "it has no 'model_type'".
class JsonError : public Error {
 public:
  using Error::Error;
};

/// @brief Lists and objects that are nested deeper than is read.
class JsonTooDeep : public JsonError {
 public:
  using JsonError::JsonError;
};

/// @brief How a text's characters are written; JSON is UTF-8.
enum class JsonLetters {
  kAsTheyAre,  ///< bytes that are not UTF-8 are refused
  kReplaced,   ///< they become U+FFFD
  kAscii       ///< they do, and what is not ASCII is written by its number
};

class Json;
struct JsonMember;

/// @brief What becomes a list, or an object when it has keys: a vector, a span, a map.
template <class T>
concept JsonRange = !std::convertible_to<const T&, std::string_view> && !std::same_as<T, Json> &&
                    requires(const T& range) {
  range.begin();
  range.end();
};

/// @brief Null, a bool, a number, a text, a list or an object, whose members keep their order.
///
/// A list in braces whose elements are all pairs that begin with a text is an object:
/// `Json{{"ranks", 4}, {"losses", {3.5, 3.25}}}`; Json::array() makes a list of whatever it is given.
class Json {
 public:
  /// @brief Null.
  Json();
  /// @brief Null.
  Json(std::nullptr_t);  // NOLINTBEGIN(google-explicit-constructor): each is a value of JSON
  /// @brief A text.
  Json(const char* text);
  /// @brief A text.
  Json(std::string_view text);
  /// @brief A text.
  Json(std::string text);
  /// @brief A bool or a whole number.
  template <std::integral T>
  Json(T number) : Json(Scalar{}, widened(number)) {}
  /// @brief A number.
  template <std::floating_point T>
  Json(T number) : Json(Scalar{}, static_cast<double>(number)) {}
  /// @brief A list.
  Json(std::vector<Json> elements);
  /// @brief An object. No two members have one key.
  Json(std::vector<JsonMember> members);
  /// @brief A list of what is in a range, or an object of what is in a map.
  template <JsonRange T>
  Json(const T& range) : Json(of_range(range)) {}
  /// @brief Null when there is no value.
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}
  /// @brief An object when all elements are pairs that begin with a text, else a list.
  Json(std::initializer_list<Json> elements);  // NOLINTEND(google-explicit-constructor)

  /// @brief Copies all below it.
  Json(const Json&);
  /// @brief Leaves null.
  Json(Json&&) noexcept;
  /// @brief Copies all below it.
  Json& operator=(const Json&);
  /// @brief Leaves null.
  Json& operator=(Json&&) noexcept;
  ~Json();

  /// @brief A list.
  [[nodiscard]] static Json array(std::initializer_list<Json> elements = {});
  /// @brief An object without members.
  [[nodiscard]] static Json object();

  /// @brief The value that a text says. Of members with one key the last counts.
  /// @param most_levels  how deep lists and objects may be nested.
  /// @throws JsonError, which says where the text is not JSON, or JsonTooDeep.
  [[nodiscard]] static Json parse(std::string_view text, std::size_t most_levels = 100);
  /// @brief The text, on one line, or with a line for each value and so many spaces for each level.
  /// @throws JsonError for bytes that are not UTF-8, where they are refused.
  [[nodiscard]] std::string dump(int indent = -1,
                                 JsonLetters letters = JsonLetters::kAsTheyAre) const;

  /// @brief Whether it is null.
  [[nodiscard]] bool is_null() const;
  /// @brief Whether it is true or false.
  [[nodiscard]] bool is_boolean() const;
  /// @brief Whether it is a number of any kind.
  [[nodiscard]] bool is_number() const;
  /// @brief Whether it is a whole number from 0 to 2^64 - 1, written as one.
  [[nodiscard]] bool is_whole() const;
  /// @brief Whether it is a text.
  [[nodiscard]] bool is_string() const;
  /// @brief Whether it is a list.
  [[nodiscard]] bool is_array() const;
  /// @brief Whether it is an object.
  [[nodiscard]] bool is_object() const;

  /// @brief The value as a bool, a whole number from 0 on, a double or a std::string; a list of such
  /// as a vector, an object of such as a map.
  /// @throws JsonError when it is of another kind, or a whole number that T does not hold.
  template <class T>
  [[nodiscard]] T get() const;
  /// @brief The same, into a variable.
  template <class T>
  void get_to(T& out) const {
    out = get<T>();
  }

  /// @brief How many elements or members there are: none in null, one in another value.
  [[nodiscard]] std::size_t size() const;
  /// @brief Whether there are none.
  [[nodiscard]] bool empty() const { return size() == 0; }

  /// @brief The elements of a list.
  /// @throws JsonError for another value.
  [[nodiscard]] const std::vector<Json>& elements() const&;
  /// @copybrief elements
  [[nodiscard]] std::vector<Json>& elements() &;
  /// @copybrief elements
  [[nodiscard]] std::vector<Json> elements() &&;
  /// @brief The members of an object.
  /// @throws JsonError for another value.
  [[nodiscard]] const std::vector<JsonMember>& members() const&;
  /// @copybrief members
  [[nodiscard]] std::vector<JsonMember> members() &&;

  /// @brief An object's member; null when there is none, or the value is not an object.
  [[nodiscard]] const Json* find(std::string_view key) const;
  /// @brief Whether it is an object that has such a member.
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// @brief An object's member.
  /// @throws JsonError when there is none.
  [[nodiscard]] const Json& at(std::string_view key) const;
  /// @brief A list's element.
  /// @throws JsonError when there is none.
  [[nodiscard]] const Json& at(std::size_t index) const;
  /// @brief at().
  [[nodiscard]] const Json& operator[](std::string_view key) const { return at(key); }
  /// @brief at().
  [[nodiscard]] const Json& operator[](std::size_t index) const { return at(index); }
  /// @brief A list's element.
  /// @throws JsonError when there is none.
  [[nodiscard]] Json& operator[](std::size_t index);
  /// @brief An object's member, which is added when there is none. Null becomes an object.
  [[nodiscard]] Json& operator[](std::string_view key);

  /// @brief Adds an element to a list. Null becomes one.
  void push_back(Json element);
  /// @brief Sets an object's members to those of another.
  void update(const Json& other);
  /// @brief Leaves a member out, if it is there.
  void erase(std::string_view key);

  /// @brief Numbers are equal by their values, objects when their members are in the same order.
  friend bool operator==(const Json& a, const Json& b);

 private:
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string,
                             std::vector<Json>, std::vector<JsonMember>>;
  struct Library;  // of json.cpp
  struct Scalar {};

  Json(Scalar, bool value);
  Json(Scalar, std::int64_t value);
  Json(Scalar, std::uint64_t value);
  Json(Scalar, double value);
  template <class T>
  static Json of_range(const T& range);

  template <std::integral T>
  static constexpr auto widened(T number) {
    if constexpr (std::same_as<T, bool>) {
      return number;
    } else if constexpr (std::signed_integral<T>) {
      return static_cast<std::int64_t>(number);
    } else {
      return static_cast<std::uint64_t>(number);
    }
  }

  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::uint64_t whole(std::uint64_t most) const;
  [[nodiscard]] double number() const;
  [[nodiscard]] const std::string& text() const;

  Value value_;
};

/// @brief A member of an object.
struct JsonMember {
  std::string key;  ///< its name
  Json value;       ///< what it is
  friend bool operator==(const JsonMember&, const JsonMember&) = default;
};

template <class T>
Json Json::of_range(const T& range) {
  if constexpr (requires { typename T::mapped_type; }) {
    std::vector<JsonMember> members;
    for (const auto& [key, value] : range) members.push_back({std::string(key), value});
    return members;
  } else {
    std::vector<Json> elements;
    for (const auto& element : range) elements.emplace_back(element);
    return elements;
  }
}

template <class T>
T Json::get() const {
  if constexpr (std::same_as<T, bool>) {
    return boolean();
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(whole(static_cast<std::uint64_t>(std::numeric_limits<T>::max())));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(number());
  } else if constexpr (std::same_as<T, std::string>) {
    return text();
  } else if constexpr (requires { typename T::mapped_type; }) {
    T all;
    for (const auto& [key, value] : members()) {
      all.emplace(key, value.template get<typename T::mapped_type>());
    }
    return all;
  } else {
    T all;
    for (const Json& element : elements()) {
      all.push_back(element.template get<typename T::value_type>());
    }
    return all;
  }
}

}  // namespace ultra
