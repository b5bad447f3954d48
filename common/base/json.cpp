#include "common/base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "common/base/json_events.hpp"

namespace ultra {
namespace {

using Text = nlohmann::ordered_json;

/// A kind of value, with its article.
std::string_view in_words(const Json& json) {
  if (json.is_null()) return "null";
  if (json.is_boolean()) return "true or false";
  if (json.is_string()) return "a text";
  if (json.is_array()) return "a list";
  return json.is_object() ? "an object" : "a number";
}

[[noreturn]] void refuse(const Json& found, std::string_view expected) {
  throw JsonError(fmt::format("{} stands where {} belongs", in_words(found), expected));
}

// Reading -----------------------------------------------------------------------------------------

/// Of members with one key the last counts, in the place of the first.
std::vector<JsonMember> with_different_keys(std::vector<JsonMember> members) {
  std::map<std::string, std::size_t> places;
  std::vector<JsonMember> kept;
  for (JsonMember& member : members) {
    const auto [place, is_new] = places.try_emplace(member.key, kept.size());
    if (is_new) {
      kept.push_back(std::move(member));
    } else {
      kept[place->second].value = std::move(member.value);
    }
  }
  return kept;
}

/// Makes a value of what is read.
class Builder final : public JsonEvents {
 public:
  Builder(std::string_view text, std::size_t most_levels)
      : text_(text), most_levels_(most_levels) {}

  Json take() { return std::move(whole_); }

  void null() override { add(nullptr); }
  void boolean(bool value) override { add(value); }
  void negative(std::int64_t value) override { add(value); }
  void whole(std::uint64_t value) override { add(value); }
  void number(double value, const std::string&) override { add(value); }
  void string(std::string& value) override { add(std::move(value)); }
  void begin_array() override { begin(); }
  void end_array() override { add(Json(std::move(left().elements))); }
  void begin_object() override { begin(); }
  void key(std::string& name) override { open_.back().key = std::move(name); }
  void end_object() override { add(Json(with_different_keys(left().members))); }

  void too_large(const std::string&) override { throw JsonError("a number in it is too large"); }
  void no_json(std::size_t position) override {
    throw JsonError(fmt::format("it is no JSON {}", shown_json_place(text_, position)));
  }

 private:
  /// A list or an object that is being read.
  struct Level {
    std::vector<Json> elements;
    std::vector<JsonMember> members;
    std::optional<std::string> key;  // of an object's next member
  };

  void begin() {
    if (open_.size() == most_levels_) {
      throw JsonTooDeep(
          fmt::format("its lists and objects are nested more than {} deep", most_levels_));
    }
    open_.emplace_back();
  }

  Level left() {
    Level level = std::move(open_.back());
    open_.pop_back();
    return level;
  }

  void add(Json value) {
    if (open_.empty()) {
      whole_ = std::move(value);
    } else if (Level& level = open_.back(); level.key) {
      level.members.push_back({*std::exchange(level.key, std::nullopt), std::move(value)});
    } else {
      level.elements.push_back(std::move(value));
    }
  }

  std::string_view text_;
  std::size_t most_levels_;
  std::vector<Level> open_;
  Json whole_;
};

/// Hands on what the library reads; true: it goes on.
class Reader {
 public:
  explicit Reader(JsonEvents& events) : events_(events) {}

  bool null() { return (events_.null(), true); }
  bool boolean(bool value) { return (events_.boolean(value), true); }
  bool number_integer(std::int64_t value) { return (events_.negative(value), true); }
  bool number_unsigned(std::uint64_t value) { return (events_.whole(value), true); }
  bool number_float(double value, const std::string& text) {
    return (events_.number(value, text), true);
  }
  bool string(std::string& value) { return (events_.string(value), true); }
  bool binary(Text::binary_t&) { return false; }  // no text has one
  bool start_array(std::size_t) { return (events_.begin_array(), true); }
  bool end_array() { return (events_.end_array(), true); }
  bool start_object(std::size_t) { return (events_.begin_object(), true); }
  bool key(std::string& name) { return (events_.key(name), true); }
  bool end_object() { return (events_.end_object(), true); }

  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow) {
      events_.too_large(token);
    } else {
      events_.no_json(position);
    }
    return false;
  }

 private:
  JsonEvents& events_;
};

}  // namespace

void read_json_events(std::string_view text, JsonEvents& events) {
  Reader reader(events);
  Text::sax_parse(text, &reader);
}

std::string shown_json_place(std::string_view text, std::size_t position) {
  constexpr std::size_t kShownBytes = 24;
  const std::size_t at = std::min<std::size_t>(position == 0 ? 0 : position - 1, text.size());
  const std::size_t begin = at - std::min<std::size_t>(at, kShownBytes / 2);
  const Json here = text.substr(begin, kShownBytes);
  return fmt::format("at byte {} of {}, at {}", at, text.size(),
                     here.dump(-1, JsonLetters::kAscii));
}

// Writing -----------------------------------------------------------------------------------------

/// A value as the library has it.
struct Json::Library {
  static Text of(const std::vector<Json>& elements) {
    Text::array_t list;
    list.reserve(elements.size());
    for (const Json& element : elements) list.push_back(of(element));
    return list;
  }

  static Text of(const std::vector<JsonMember>& members) {
    Text::object_t object;
    object.reserve(members.size());
    for (const JsonMember& member : members) object.emplace_back(member.key, of(member.value));
    return object;
  }

  static Text of(const Json& json) {
    return std::visit(
        [](const auto& value) -> Text {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::same_as<T, std::vector<Json>> ||
                        std::same_as<T, std::vector<JsonMember>>) {
            return of(value);
          } else {
            return value;
          }
        },
        json.value_);
  }
};

Json Json::parse(std::string_view text, std::size_t most_levels) {
  Builder builder(text, most_levels);
  read_json_events(text, builder);
  return builder.take();
}

std::string Json::dump(int indent, JsonLetters letters) const {
  const auto others = letters == JsonLetters::kAsTheyAre ? Text::error_handler_t::strict
                                                         : Text::error_handler_t::replace;
  try {
    return Library::of(*this).dump(indent, ' ', letters == JsonLetters::kAscii, others);
  } catch (const Text::exception& error) {
    throw JsonError(error.what());
  }
}

// Values ------------------------------------------------------------------------------------------

Json::Json() = default;
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json::Json(std::nullptr_t) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::vector<Json> elements) : value_(std::move(elements)) {}
Json::Json(std::vector<JsonMember> members) : value_(std::move(members)) {}

Json::Json(std::initializer_list<Json> elements) {
  const bool are_pairs = std::ranges::all_of(elements, [](const Json& element) {
    return element.is_array() && element.size() == 2 && element[0].is_string();
  });
  if (!are_pairs) {
    value_ = std::vector<Json>(elements);
    return;
  }
  std::vector<JsonMember> members;
  members.reserve(elements.size());
  for (const Json& pair : elements) members.push_back({pair[0].text(), pair[1]});
  value_ = std::move(members);
}

Json Json::array(std::initializer_list<Json> elements) { return std::vector<Json>(elements); }
Json Json::object() { return std::vector<JsonMember>(); }

Json::Json(Scalar, bool value) : value_(value) {}
Json::Json(Scalar, std::uint64_t value) : value_(value) {}
Json::Json(Scalar, double value) : value_(value) {}
Json::Json(Scalar, std::int64_t value) : value_(static_cast<std::uint64_t>(value)) {
  if (value < 0) value_ = value;
}

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_boolean() const { return std::holds_alternative<bool>(value_); }
bool Json::is_whole() const { return std::holds_alternative<std::uint64_t>(value_); }
bool Json::is_string() const { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const { return std::holds_alternative<std::vector<Json>>(value_); }
bool Json::is_object() const { return std::holds_alternative<std::vector<JsonMember>>(value_); }
bool Json::is_number() const {
  return is_whole() || std::holds_alternative<std::int64_t>(value_) ||
         std::holds_alternative<double>(value_);
}

bool Json::boolean() const {
  if (const bool* value = std::get_if<bool>(&value_)) return *value;
  refuse(*this, "true or false");
}

std::uint64_t Json::whole(std::uint64_t most) const {
  const auto* value = std::get_if<std::uint64_t>(&value_);
  if (value != nullptr && *value <= most) return *value;
  if (!is_number()) refuse(*this, "a number");
  throw JsonError(fmt::format("{} stands where a whole number up to {} belongs", dump(), most));
}

double Json::number() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  refuse(*this, "a number");
}

const std::string& Json::text() const {
  if (const auto* value = std::get_if<std::string>(&value_)) return *value;
  refuse(*this, "a text");
}

std::size_t Json::size() const {
  if (is_array()) return elements().size();
  if (is_object()) return members().size();
  return is_null() ? 0 : 1;
}

const std::vector<Json>& Json::elements() const& {
  if (const auto* list = std::get_if<std::vector<Json>>(&value_)) return *list;
  refuse(*this, "a list");
}

std::vector<Json>& Json::elements() & {
  if (auto* list = std::get_if<std::vector<Json>>(&value_)) return *list;
  refuse(*this, "a list");
}

// Of a value that ends with the expression: for (const Json& each : Json::parse(text).elements()).
std::vector<Json> Json::elements() && { return std::move(elements()); }
std::vector<JsonMember> Json::members() && { return std::as_const(*this).members(); }

const std::vector<JsonMember>& Json::members() const& {
  if (const auto* object = std::get_if<std::vector<JsonMember>>(&value_)) return *object;
  refuse(*this, "an object");
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const auto found = std::ranges::find(members(), key, &JsonMember::key);
  return found == members().end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view key) const {
  if (!is_object()) refuse(*this, "an object");
  if (const Json* found = find(key)) return *found;
  throw JsonError(fmt::format("it has no '{}'", key));
}

const Json& Json::at(std::size_t index) const {
  if (index < elements().size()) return elements()[index];
  throw JsonError("a list in it is too short");
}

Json& Json::operator[](std::size_t index) {
  return const_cast<Json&>(at(index));  // of this, which is not const
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = std::vector<JsonMember>();
  if (!is_object()) refuse(*this, "an object");
  auto& members = std::get<std::vector<JsonMember>>(value_);
  const auto found = std::ranges::find(members, key, &JsonMember::key);
  if (found != members.end()) return found->value;
  members.push_back({std::string(key), nullptr});
  return members.back().value;
}

void Json::push_back(Json element) {
  if (is_null()) value_ = std::vector<Json>();
  elements().push_back(std::move(element));
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.members()) (*this)[key] = value;
}

void Json::erase(std::string_view key) {
  if (!is_object()) refuse(*this, "an object");
  std::erase_if(std::get<std::vector<JsonMember>>(value_),
                [&](const JsonMember& member) { return member.key == key; });
}

bool operator==(const Json& a, const Json& b) {
  const bool are_alike = a.value_.index() == b.value_.index();
  if (!are_alike && a.is_number() && b.is_number()) return a.number() == b.number();
  return a.value_ == b.value_;
}

}  // namespace ultra
