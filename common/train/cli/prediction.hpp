#pragma once
/// @file
/// A question as a technique: what answers it instead of training.

#include <optional>
#include <string>
#include <vector>

#include "common/train/cli/technique.hpp"

namespace ultra::train {

/// @brief A prediction as a technique that answers instead of training.
/// Requires: Options has kFlag, add_to, validate, predicts and answer, as a table of methods has;
/// and files, when it names any.
template <class Options>
class Prediction : public Technique {
 public:
  void add_flags(CLI::App& app, Setup&) override { options_.add_to(app); }
  void validate(Setup&) override { options_.validate(); }
  [[nodiscard]] std::vector<FileFlag> files() const override {
    if constexpr (requires { options_.files(); }) return options_.files();
    return {};
  }
  [[nodiscard]] std::vector<Question> questions() const override {
    if (!options_.predicts()) return {};
    return {{Options::kFlag, Instead::kAnswer}};
  }
  [[nodiscard]] std::optional<std::string> answer(const Setup& setup) const override {
    if (!options_.predicts()) return {};
    return options_.answer(setup.train.model);
  }

 private:
  Options options_;
};

}  // namespace ultra::train
