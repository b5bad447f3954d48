#include "chapters/11_five_d/composition/combinations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>

#include "common/base/errors.hpp"
#include "common/train/options/flags.hpp"

namespace ultra::five_d {
namespace {

class Combinations : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup&) override {
    const train::Flags flags(app, "Combinations");
    flags.add_switch("--combinations", asked_,
                     "print which flags do not go together, and why, instead of training");
    flags.add_switch("--combinations-json", json_, "print them as JSON");
  }
  void validate(train::Setup&) override {
    if (asked_ || !json_) return;
    throw ConfigError("--combinations-json has no meaning without --combinations. Give both.");
  }
  std::vector<train::Question> questions() const override {
    if (!asked_) return {};
    return {{"--combinations", train::Instead::kAnswer}};
  }
  std::optional<std::string> answer(const train::Setup& setup) const override {
    if (!asked_) return {};
    const std::vector<train::Exclusion> all = exclusions_of(setup);
    return json_ ? combinations_to_json(all).dump(2) + "\n" : format_combinations(all);
  }

 private:
  bool asked_ = false;
  bool json_ = false;
};

}  // namespace

std::vector<train::Exclusion> exclusions_of(const train::Setup& setup) {
  std::vector<train::Exclusion> all;
  for (const auto& technique : setup.techniques) {
    for (train::Exclusion& exclusion : technique->exclusions(setup)) {
      all.push_back(std::move(exclusion));
    }
  }
  return all;
}

std::string format_combinations(const std::vector<train::Exclusion>& exclusions) {
  std::size_t first = 0;
  std::size_t second = 0;
  for (const train::Exclusion& exclusion : exclusions) {
    first = std::max(first, exclusion.first.size());
    second = std::max(second, exclusion.second.size());
  }
  std::string text =
      "These do not go together; every other pair does. Flags that need another one, and sizes "
      "that "
      "do not fit, are refused with their numbers.\n\n";
  std::string_view last;
  for (const train::Exclusion& exclusion : exclusions) {
    const bool again = exclusion.reason == last;
    text += fmt::format("  {:<{}}   {:<{}}   {}\n", exclusion.first, first, exclusion.second,
                        second, again ? "the same" : exclusion.reason);
    last = exclusion.reason;
  }
  return text;
}

Json combinations_to_json(const std::vector<train::Exclusion>& exclusions) {
  Json rows = Json::array();
  for (const train::Exclusion& one : exclusions) {
    rows.push_back({{"first", one.first}, {"second", one.second}, {"reason", one.reason}});
  }
  return rows;
}

std::unique_ptr<train::Technique> combinations() { return std::make_unique<Combinations>(); }

}  // namespace ultra::five_d
