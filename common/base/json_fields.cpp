#include "common/base/json_fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/text_file.hpp"

namespace ultra {
namespace {

constexpr std::size_t kMostBytes = 1U << 24U;
constexpr std::size_t kMostLevels = 100;

/// A value as a message shows it: not a whole file.
std::string shown(const Json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  return in_quotes(value.dump(-1, JsonLetters::kAscii));
}

}  // namespace

JsonFields JsonFields::of_file(const std::string& path) {
  const std::string text =
      text_of_file(path, kMostBytes, in_quotes(path), "Give the path of a JSON file.");
  if (text.size() > kMostBytes) {
    throw FileError(
        fmt::format("{} is larger than {} bytes. A model's or a cluster's file has a few thousand.",
                    in_quotes(path), kMostBytes));
  }
  try {
    return {Json::parse(text, kMostLevels), path};
  } catch (const JsonTooDeep&) {
    throw FileError(
        fmt::format("{} has lists in lists, more than {} deep. It needs no more than 3.",
                    in_quotes(path), kMostLevels));
  } catch (const JsonError&) {
    throw FileError(
        fmt::format("{} holds no JSON. It must hold an object in {{ }}.", in_quotes(path)));
  }
}

JsonFields::JsonFields(Json object, std::string where)
    : object_(std::move(object)), where_(std::move(where)) {
  if (object_.is_object()) return;
  throw FileError(fmt::format("{} is {}. It must be an object in {{ }}.", where_, shown(object_)));
}

bool JsonFields::has(std::string_view key) const {
  const Json* found = object_.find(key);
  return found != nullptr && !found->is_null();
}

const Json& JsonFields::at(std::string_view key) const {
  if (const Json* found = object_.find(key)) return *found;
  std::vector<std::string> keys;
  for (const auto& [name, value] : object_.members()) keys.push_back(name);
  throw FileError(fmt::format("{} lacks \"{}\". It has: {}. Add it.", where_, key,
                              keys.empty() ? "nothing" : fmt::format("{}", fmt::join(keys, ", "))));
}

double JsonFields::number(std::string_view key) const {
  const Json& value = at(key);
  if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
  throw FileError(fmt::format("{}: \"{}\" is {}. It must be a number.", where_, key, shown(value)));
}

double JsonFields::number_or(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

std::size_t JsonFields::count(std::string_view key) const {
  const Json& value = at(key);
  constexpr double kMost = 1e15;
  if (value.is_number()) {
    const double number = value.get<double>();
    if (number >= 1 && number <= kMost && number == std::floor(number)) {
      return static_cast<std::size_t>(number);
    }
  }
  throw FileError(fmt::format("{}: \"{}\" is {}. It must be a whole number above 0.", where_, key,
                              shown(value)));
}

std::size_t JsonFields::count_or(std::string_view key, std::size_t otherwise) const {
  return has(key) ? count(key) : otherwise;
}

std::string JsonFields::text(std::string_view key) const {
  const Json& value = at(key);
  if (value.is_string()) return value.get<std::string>();
  throw FileError(
      fmt::format("{}: \"{}\" is {}. It must be a text in quotes.", where_, key, shown(value)));
}

std::string JsonFields::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? text(key) : std::string(otherwise);
}

bool JsonFields::flag_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const Json& value = at(key);
  if (value.is_boolean()) return value.get<bool>();
  throw FileError(
      fmt::format("{}: \"{}\" is {}. It must be true or false.", where_, key, shown(value)));
}

JsonFields JsonFields::object(std::string_view key) const {
  return {at(key), fmt::format("{}: \"{}\"", where_, key)};
}

std::vector<JsonFields> JsonFields::objects(std::string_view key) const {
  std::vector<JsonFields> all;
  if (!has(key)) return all;
  const Json& list = at(key);
  if (!list.is_array()) {
    throw FileError(fmt::format("{}: \"{}\" is {}. It must be a list of objects in [ ].", where_,
                                key, shown(list)));
  }
  for (const Json& one : list.elements()) {
    all.emplace_back(one, fmt::format("{}: \"{}\" number {}", where_, key, all.size() + 1));
  }
  return all;
}

void JsonFields::expect_only(const std::vector<std::string_view>& keys) const {
  for (const auto& [name, value] : object_.members()) {
    if (std::ranges::find(keys, name) != keys.end()) continue;
    throw FileError(fmt::format("{}: there is no key {}. Those there are: {}.", where_,
                                in_quotes(name), fmt::join(keys, ", ")));
  }
}

}  // namespace ultra
