#include "common/train/options/flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <utility>

#include "common/base/text.hpp"

namespace ultra::train {
namespace {

/// Without it CLI11 reads "-1" as the largest unsigned number.
CLI::Validator whole_number() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (parse_number<std::uint64_t>(text)) return "";
        return fmt::format("'{}' is not a whole number from 0 to 2^64 - 1", text);
      },
      "");
}

}  // namespace

Flags::Flags(CLI::App& app, std::string group) : app_(&app), group_(std::move(group)) {}

void Flags::add(const char* flag, std::size_t& value, const std::string& help,
                ShowDefault show) const {
  CLI::Option* option = app_->add_option(flag, value, help)->check(whole_number())->group(group_);
  if (show == ShowDefault::kYes) option->capture_default_str();
}

void Flags::add(const char* flag, double& value, const std::string& help) const {
  app_->add_option(flag, value, help)->capture_default_str()->group(group_);
}

void Flags::add(const char* flag, std::string& value, const std::string& help) const {
  app_->add_option(flag, value, help)->capture_default_str()->group(group_);
}

void Flags::add(const char* flag, std::optional<std::size_t>& value,
                const std::string& help) const {
  app_->add_option(flag, value, help)->check(whole_number())->group(group_);
}

void Flags::add(const char* flag, std::optional<double>& value, const std::string& help) const {
  app_->add_option(flag, value, help)->group(group_);
}

void Flags::add(const char* flag, std::optional<std::string>& value,
                const std::string& help) const {
  app_->add_option(flag, value, help)->group(group_);
}

void Flags::add(const char* flag, std::vector<std::string>& values, const std::string& help) const {
  app_->add_option(flag, values, help)->delimiter(',')->group(group_);
}

void Flags::add_one_of(const char* flag, std::string& value,
                       std::initializer_list<const char*> words, const std::string& help) const {
  app_->add_option(flag, value, help)
      ->check(CLI::IsMember(std::vector<std::string>(words.begin(), words.end())))
      ->capture_default_str()
      ->group(group_);
}

void Flags::add_parsed(const char* flag, std::function<void(const std::string&)> read,
                       const std::string& help, const std::string& shown_default) const {
  app_->add_option_function<std::string>(flag, read, help)
      ->default_str(shown_default)
      ->group(group_);
}

void Flags::add_switch(const char* flag, bool& value, const std::string& help) const {
  app_->add_flag(flag, value, help)->group(group_);
}

void when_given(CLI::App& app, const char* flag, std::function<void()> fn) {
  app.get_option(flag)->each([fn = std::move(fn)](const std::string&) { fn(); });
}

}  // namespace ultra::train
