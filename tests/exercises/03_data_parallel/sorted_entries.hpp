#pragma once
/// @file
/// The largest entries by a stable sort, and what a selection looks like after a typical mistake.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "chapters/03_data_parallel/top_k_feedback.hpp"

namespace ultra::data_parallel::test {

using Positions = std::vector<std::uint32_t>;

/// The first `kept` positions of a stable sort, in the order of the sort.
template <class T, class Before>
Positions first_of_sorted(const std::vector<T>& entries, std::size_t kept, const Before& before) {
  Positions positions(entries.size());
  std::iota(positions.begin(), positions.end(), 0U);
  std::stable_sort(positions.begin(), positions.end(), [&](std::uint32_t a, std::uint32_t b) {
    return before(entries[a], entries[b]);
  });
  positions.resize(kept);
  return positions;
}

inline Positions ascending(Positions positions) {
  std::sort(positions.begin(), positions.end());
  return positions;
}

template <class T>
std::vector<T> magnitudes_at(const std::vector<T>& entries, const Positions& positions) {
  std::vector<T> magnitudes;
  for (const std::uint32_t p : positions) {
    if (p < entries.size()) magnitudes.push_back(std::abs(entries[p]));
  }
  std::sort(magnitudes.begin(), magnitudes.end());
  return magnitudes;
}

inline constexpr auto kLargerMagnitude = [](auto a, auto b) { return std::abs(a) > std::abs(b); };

template <class T>
std::string hint_for(const std::vector<T>& entries, const Positions& found,
                     const Positions& expected) {
  const Positions sorted = ascending(found);
  if (sorted == expected) return "Hint: the positions must be in ascending order.";
  const Positions largest_values =
      ascending(first_of_sorted(entries, expected.size(), [](T a, T b) { return a > b; }));
  if (sorted == largest_values) {
    return "Hint: these are the largest values. A large negative entry matters as much: compare "
           "magnitudes.";
  }
  const Positions smallest = ascending(first_of_sorted(
      entries, expected.size(), [](T a, T b) { return std::abs(a) < std::abs(b); }));
  if (sorted == smallest) return "Hint: these are the smallest magnitudes: std::greater.";
  if (found.size() != expected.size()) {
    return "Hint: exactly `kept` entries. Of those that equal the kept-th largest magnitude only "
           "some may be taken.";
  }
  if (magnitudes_at(entries, found) == magnitudes_at(entries, expected)) {
    return "Hint: of equal magnitudes the one at the lower position comes first: all replicas must "
           "choose alike on equal gradients.";
  }
  return "Hint: write the magnitudes of a short array down and mark the `kept` largest.";
}

template <class T>
void expect_largest(const std::vector<T>& entries, std::size_t kept) {
  const Positions expected = ascending(first_of_sorted(entries, kept, kLargerMagnitude));
  const Positions found = largest_entries<T>(entries, kept);
  EXPECT_EQ(found, expected) << "the " << kept << " largest of ["
                             << fmt::format("{}", fmt::join(entries, ", ")) << "]\n"
                             << hint_for(entries, found, expected);
}

}  // namespace ultra::data_parallel::test
