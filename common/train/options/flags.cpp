#include "common/train/options/flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <utility>

#include "common/base/text.hpp"

namespace ultra::train {
namespace {

/// No path is longer, and no other value has a reason to be.
constexpr std::size_t kLongestValue = 4096;

std::string in_words(const Counts& limits) {
  if (limits.most < Counts{}.most) {
    return fmt::format("a whole number from {} to {}", limits.least, limits.most);
  }
  if (limits.least > 0) return fmt::format("a whole number of at least {}", limits.least);
  return "a whole number from 0 to 2^64 - 1";
}

std::string in_words(const Numbers& limits) {
  if (limits.least == Numbers{}.least && limits.most == Numbers{}.most) return "a number";
  if (limits.most == Numbers{}.most) return fmt::format("a number of at least {}", limits.least);
  return fmt::format("a number from {} to {}", limits.least, limits.most);
}

template <class T>
T number_of(const std::string& flag, const std::string& text, const Limits<T>& limits) {
  const std::optional<T> number = parse_number<T>(text);
  // The comparison is false for NaN.
  if (number && *number >= limits.least && *number <= limits.most) return *number;
  const bool is_number = parse_number<double>(text).has_value() && text.size() < 30;
  throw ConfigError(fmt::format("{} is {}. It must be {}.", flag,
                                is_number ? text : in_quotes(text), in_words(limits)));
}

void expect_readable(const std::string& flag, const std::string& text) {
  if (text.empty()) {
    throw ConfigError(fmt::format(
        "{} is empty. Give it a value, or leave it out; is a variable of the shell not set?",
        flag));
  }
  if (text.size() > kLongestValue) {
    throw ConfigError(
        fmt::format("{} has a value of {} bytes, {}. No value is longer than {} bytes.", flag,
                    text.size(), in_quotes(text), kLongestValue));
  }
  if (std::ranges::any_of(text, [](unsigned char c) { return std::iscntrl(c) != 0; })) {
    throw ConfigError(fmt::format("{} is {}, which has a control character. Leave that out.", flag,
                                  in_quotes(text)));
  }
}

}  // namespace

CommandParser::CommandParser(const std::string& description, const std::string& name)
    : app_(std::make_unique<CLI::App>(description, name)) {}

CommandParser::~CommandParser() = default;

std::string CommandParser::help() const { return app_->help(); }

std::optional<std::string> CommandParser::read(const std::vector<std::string>& words) {
  try {
    app_->parse(std::vector<std::string>(words.rbegin(), words.rend()));  // it wants the last first
    return {};
  } catch (const CLI::CallForHelp&) {
    return help();
  } catch (const CLI::ParseError& error) {
    throw FlagError(error.what());
  }
}

Flags::Flags(CLI::App& app, std::string group) : app_(&app), group_(std::move(group)) {}

void Flags::add_read(const Shown& shown, std::function<void(const std::string&)> read) const {
  const auto read_value = [flag = std::string(shown.flag),
                           read = std::move(read)](const std::string& text) {
    expect_readable(flag, text);
    under_flag(flag, "", [&] { read(text); });
  };
  app_->add_option_function<std::string>(shown.flag, read_value, shown.help)
      ->type_name(shown.type)
      ->default_str(shown.default_value)
      ->group(group_);
}

void Flags::add(const char* flag, std::size_t& value, const std::string& help, Counts limits,
                ShowDefault show) const {
  const std::string now = show == ShowDefault::kYes ? fmt::to_string(value) : "";
  add_read({flag, help, "UINT", now},
           [flag = std::string(flag), limits, &value](const std::string& text) {
             value = number_of<std::uint64_t>(flag, text, limits);
           });
}

void Flags::add(const char* flag, double& value, const std::string& help, Numbers limits) const {
  add_read({flag, help, "FLOAT", fmt::to_string(value)},
           [flag = std::string(flag), limits, &value](const std::string& text) {
             value = number_of<double>(flag, text, limits);
           });
}

void Flags::add(const char* flag, std::string& value, const std::string& help) const {
  add_read({flag, help, "TEXT", value}, [&value](const std::string& text) { value = text; });
}

void Flags::add(const char* flag, std::optional<std::size_t>& value, const std::string& help,
                Counts limits) const {
  add_read({flag, help, "UINT", ""},
           [flag = std::string(flag), limits, &value](const std::string& text) {
             value = number_of<std::uint64_t>(flag, text, limits);
           });
}

void Flags::add(const char* flag, std::optional<double>& value, const std::string& help,
                Numbers limits) const {
  add_read({flag, help, "FLOAT", ""},
           [flag = std::string(flag), limits, &value](const std::string& text) {
             value = number_of<double>(flag, text, limits);
           });
}

void Flags::add(const char* flag, std::optional<std::string>& value,
                const std::string& help) const {
  add_read({flag, help, "TEXT", ""}, [&value](const std::string& text) { value = text; });
}

void Flags::add(const char* flag, std::vector<std::string>& values, const std::string& help) const {
  add_read({flag, help, "TEXT ...", ""},
           [flag = std::string(flag), &values](const std::string& text) {
             values.clear();
             for (const std::string_view part : split(text, ',')) {
               if (part.empty()) {
                 throw ConfigError(
                     fmt::format("{} is {}, with an empty name in it. Write one comma between "
                                 "two names.",
                                 flag, in_quotes(text)));
               }
               values.emplace_back(part);
             }
           });
}

void Flags::add_one_of(const char* flag, std::string& value, const std::vector<std::string>& words,
                       const std::string& help) const {
  const std::string type = fmt::format("TEXT:{{{}}}", fmt::join(words, ","));
  add_read({flag, help, type.c_str(), value},
           [flag = std::string(flag), choices = words, &value](const std::string& text) {
             if (std::ranges::find(choices, text) == choices.end()) {
               throw ConfigError(fmt::format("{} is {}. It must be {}.", flag, in_quotes(text),
                                             fmt::join(choices, " or ")));
             }
             value = text;
           });
}

void Flags::add_parsed(const char* flag, std::function<void(const std::string&)> read,
                       const std::string& help, const std::string& shown_default) const {
  add_read({flag, help, "TEXT", shown_default}, std::move(read));
}

void Flags::add_switch(const char* flag, bool& value, const std::string& help) const {
  app_->add_flag(flag, value, help)->group(group_);
}

std::string name_of(const CLI::App& app) { return app.get_name(); }

std::map<std::string, std::string> values_of(const CLI::App& app) {
  std::map<std::string, std::string> values;
  for (const CLI::Option* option : app.get_options()) {
    values[option->get_name()] = option->count() == 0
                                     ? option->get_default_str()
                                     : fmt::format("{}", fmt::join(option->results(), ","));
  }
  return values;
}

void when_given(CLI::App& app, const char* flag, std::function<void()> fn) {
  app.get_option(flag)->each([fn = std::move(fn)](const std::string&) { fn(); });
}

std::string message_under_flag(std::string_view flag, std::string_view elsewhere,
                               std::string_view message) {
  if (message.starts_with(flag)) return std::string(message);
  if (message.starts_with(elsewhere)) message.remove_prefix(elsewhere.size());
  const bool continues = message.starts_with(' ') || message.starts_with(':');
  return fmt::format("{}{}{}", flag, continues ? "" : ": ", message);
}

}  // namespace ultra::train
