#pragma once
/// @file
/// RankCounters: what the layers of a rank count while they work.

#include <map>
#include <string>
#include <string_view>

namespace ultra::train {

/// @brief Sums by name, of one rank; used by its own thread only.
class RankCounters {
 public:
  /// @brief Adds to the sum of that name, which begins at 0.
  void add(std::string_view name, double amount) {
    auto found = sums_.find(name);
    if (found == sums_.end()) found = sums_.emplace(std::string(name), 0.0).first;
    found->second += amount;
  }

  /// @brief All sums, by name.
  [[nodiscard]] const std::map<std::string, double, std::less<>>& sums() const { return sums_; }

 private:
  std::map<std::string, double, std::less<>> sums_;
};

}  // namespace ultra::train
