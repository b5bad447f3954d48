#pragma once
/// @file
/// Comes before every source of a figure: makes the programs' code mean in a browser what it means
/// on the machines they run on.
///
/// WebAssembly's std::size_t has 32 bits, in which the bytes of a model do not fit. All headers of
/// libraries are read first; after them, `size_t` is a number of 64 bits in the workbook's code.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <compare>
#include <complex>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <optional>
#include <queue>
#include <random>
#include <regex>
#include <set>
#include <source_location>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace std {

using wide_size_t = uint64_t;

// What Debian's libc++ for WebAssembly lacks: numbers from text, and (there are no threads) locks.

inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const string text(first, last);
  char* end = nullptr;
  const double number = strtod(text.c_str(), &end);
  if (end == text.c_str() || isspace(static_cast<unsigned char>(text.front())) != 0) {
    return {first, errc::invalid_argument};
  }
  value = number;
  return {first + (end - text.c_str()), errc{}};
}

struct mutex {
  void lock() {}
  void unlock() {}
  bool try_lock() { return true; }
};

struct scoped_lock {
  explicit scoped_lock(mutex& held) { held.lock(); }
};

struct condition_variable {
  void notify_one() {}
  void notify_all() {}
};

struct jthread {};
struct thread {
  struct id {};
};

}  // namespace std
using wide_size_t = std::wide_size_t;
#define size_t wide_size_t
