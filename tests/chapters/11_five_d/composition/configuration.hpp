#pragma once
/// @file
/// Configuration: a random training of 11_five_d, as the flags that ask for it.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/train/cli/technique.hpp"
#include "tests/support/programs/command_line.hpp"

namespace ultra::five_d::test {

using namespace ultra::test;

/// @brief A flag and its value; a switch has none.
using Flag = std::pair<std::string, std::string>;

/// @brief Whether a training is saved after its first step, and who goes on with it.
enum class GoesOn {
  kNowhere,  ///< it is not
  kAlone,    ///< saved by the layout, gone on with by one rank
  kSpread,   ///< saved by one rank, gone on with by the layout
};

/// @brief What is trained, and how it is dealt out to ranks.
struct Configuration {
  std::vector<Flag> model;   ///< what it computes: the same on every layout
  std::vector<Flag> layout;  ///< who computes it, when, and what is kept
  GoesOn goes_on = GoesOn::kNowhere;

  /// @brief The value of a flag; empty when it is not given.
  [[nodiscard]] std::string value_of(std::string_view flag) const;
  /// @brief The number that a flag has; 1 when it is not given.
  [[nodiscard]] std::size_t count_of(std::string_view flag) const;
  /// @brief Threads that it needs: its mesh, and servers beside it.
  [[nodiscard]] std::size_t ranks() const;
  /// @brief The words of the command line behind the program's name.
  [[nodiscard]] ultra::test::Words words() const;
  /// @brief The whole command line.
  [[nodiscard]] std::string line() const;
  /// @brief The same with another value of a flag of the model.
  [[nodiscard]] Configuration with(const std::string& flag, const std::string& value) const;
  /// @brief Whether it computes what one rank computes: nothing is rounded on its way, or late.
  [[nodiscard]] bool is_exact() const;
  /// @brief One rank that trains the same.
  [[nodiscard]] Configuration alone() const;
};

/// @brief The setup of a configuration, checked as the program checks it.
/// @throws ConfigError when the program would refuse it.
[[nodiscard]] train::Setup setup_of(const Configuration& configuration);

/// @brief Why the program refuses it; empty when it does not.
[[nodiscard]] std::string refusal_of(const Configuration& configuration);

}  // namespace ultra::five_d::test
