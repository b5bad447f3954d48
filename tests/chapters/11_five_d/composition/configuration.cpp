#include "tests/chapters/11_five_d/composition/configuration.hpp"

#include <algorithm>

#include "chapters/11_five_d/five_d.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::five_d::test {

std::string Configuration::value_of(std::string_view flag) const {
  for (const auto* flags : {&layout, &model}) {
    const auto found = std::ranges::find(*flags, flag, &Flag::first);
    if (found != flags->end()) return found->second;
  }
  return {};
}

std::size_t Configuration::count_of(std::string_view flag) const {
  const std::string value = value_of(flag);
  return value.empty() ? 1 : std::stoul(value);
}

std::size_t Configuration::ranks() const {
  std::size_t ranks = 1;
  for (const char* axis : {"--dp", "--pp", "--cp", "--tp"}) ranks *= count_of(axis);
  return ranks;
}

ultra::test::Words Configuration::words() const {
  ultra::test::Words words;
  for (const auto* flags : {&model, &layout}) {
    for (const auto& [flag, value] : *flags) {
      words.push_back(flag);
      if (!value.empty()) words.push_back(value);
    }
  }
  return words;
}

std::string Configuration::line() const {
  std::string line = "11_five_d";
  for (const std::string& word : words()) line += " " + word;
  if (goes_on == GoesOn::kAlone) line += "   (saved after a step; one rank goes on)";
  if (goes_on == GoesOn::kSpread) line += "   (goes on from a step of one rank)";
  return line;
}

Configuration Configuration::with(const std::string& flag, const std::string& value) const {
  Configuration changed = *this;
  const auto found = std::ranges::find(changed.model, flag, &Flag::first);
  if (found == changed.model.end()) {
    changed.model.emplace_back(flag, value);
  } else {
    found->second = value;
  }
  return changed;
}

bool Configuration::is_exact() const {
  const std::string compress = value_of("--compress");
  const std::string quantised = value_of("--zero++");
  return value_of("--precision").empty() && (compress.empty() || compress == "topk:1") &&
         quantised.find("int") == std::string::npos && value_of("--schedule") != "pipedream-async";
}

Configuration Configuration::alone() const { return {.model = model, .layout = {}}; }

train::Setup setup_of(const Configuration& configuration) {
  train::Techniques list = techniques();
  list.insert(list.begin(), ultra::test::flags_of_every_trainer());
  std::string line;
  for (const std::string& word : configuration.words()) line += word + " ";
  train::Setup setup =
      ultra::test::setup_of({}, checked_cast<int>(configuration.ranks()), std::move(list), line);
  setup.comm.validate();
  setup.train.validate();
  for (const auto& technique : setup.techniques) technique->validate_training(setup);
  return setup;
}

std::string refusal_of(const Configuration& configuration) {
  try {
    const bool saves = configuration.goes_on != GoesOn::kNowhere;
    static_cast<void>(
        setup_of(saves ? configuration.with("--checkpoint", "saved") : configuration));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

}  // namespace ultra::five_d::test
