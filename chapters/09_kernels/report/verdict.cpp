#include "chapters/09_kernels/report/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/tensor/philox.hpp"

namespace ultra::ladders {
namespace {

double in_tolerances(double found, double expected, double tolerance) {
  if (found == expected || (std::isnan(found) && std::isnan(expected))) {
    return 0.0;
  }
  const double error = std::abs(found - expected) / tolerance;
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

void Verdict::compare(const char* output, std::size_t index, double found, double expected,
                      double tolerance) {
  const double error = in_tolerances(found, expected, tolerance);
  if (compared_++ == 0 || error > worst_) {
    worst_ = error;
    output_ = output;
    index_ = index;
    found_ = found;
    expected_ = expected;
    tolerance_ = tolerance;
  }
}

void Verdict::add(const Verdict& other) {
  const std::size_t compared = compared_ + other.compared_;
  if (compared_ == 0 || (other.compared_ > 0 && other.worst_ > worst_)) {
    *this = other;
  }
  compared_ = compared;
}

std::string Verdict::to_text() const {
  if (compared_ == 0) {
    return "no output was compared";
  }
  return fmt::format("{}[{}] is {:.9g}, expected {:.9g} within {:.3g}", output_, index_, found_,
                     expected_, tolerance_);
}

std::vector<std::size_t> sample(std::size_t count, std::size_t most, std::uint64_t seed) {
  std::vector<std::size_t> chosen(std::min(count, most));
  if (count <= most) {
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    return chosen;
  }
  const PhiloxStream stream(seed, "sample of outputs");
  for (std::size_t i = 0; i < most; ++i) {
    chosen[i] = static_cast<std::size_t>(stream.below(i, count));
  }
  chosen.front() = 0;
  chosen.back() = count - 1;
  return chosen;
}

}  // namespace ultra::ladders
