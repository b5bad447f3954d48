#pragma once
/// @file
/// Chapter 02 as a technique: several ranks that hold the same model, and the algorithms by which
/// they talk.
///
/// | part of training | becomes                                  | where               |
/// |------------------|------------------------------------------|---------------------|
/// | the global batch | N equal shares                           | replicated_training |
/// | a gradient       | its sum over the ranks, after the passes | replicated_training |
/// | any collective   | steps of messages, written out           | choice/             |

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/02_collectives/collectives_options.hpp"
#include "common/train/program/technique.hpp"

namespace ultra::collectives {

/// @brief --ranks, --collectives, --link; --op measures and --simulate predicts a collective.
class Collectives : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Question> questions() const override;
  [[nodiscard]] std::optional<std::string> answer(const train::Setup& setup) const override;
  void measure(const train::Setup& setup) const override;
  [[nodiscard]] std::shared_ptr<const comm::CollectiveAlgorithms> algorithms(
      const train::AlgorithmNames& names) const override;
  void join(train::Ingredients& ingredients, const train::Setup& setup) const override;

 private:
  CollectivesOptions options_;
};

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

}  // namespace ultra::collectives
