#pragma once
/// @file
/// Coverage: which techniques have trained together.

#include <cstddef>
#include <string>
#include <vector>

#include "tests/chapters/11_five_d/composition/configuration.hpp"

namespace ultra::five_d::test {

using namespace ultra::test;

/// Something that a configuration can use, by its number: features()[number] is its name.
using Feature = std::size_t;

/// @brief The names of all features: techniques, "--tp", and their variants, "--zero 3".
[[nodiscard]] const std::vector<std::string>& features();

/// @brief The first so many features are techniques, each with all its variants as one: their
/// triples are covered too.
inline constexpr Feature kTechniques = 13;

/// @brief What a configuration uses, in rising order.
[[nodiscard]] std::vector<Feature> features_of(const Configuration& configuration);

/// @brief Features in words.
[[nodiscard]] std::string names_of(const std::vector<Feature>& features);

/// @brief Which pairs and triples of features have trained.
class Coverage {
 public:
  Coverage();

  /// @brief A configuration with these has trained.
  void add(const std::vector<Feature>& features);
  /// @brief Pairs, and triples of techniques, that adding these would be the first to have.
  [[nodiscard]] std::size_t gain(const std::vector<Feature>& features) const;
  /// @brief Pairs of features, and triples of techniques, that nothing has. Not those of two
  /// variants of a technique.
  [[nodiscard]] std::vector<std::vector<Feature>> missing() const;

 private:
  std::vector<bool> has_;  // [feature, feature, feature]: pairs have the last twice
};

}  // namespace ultra::five_d::test
