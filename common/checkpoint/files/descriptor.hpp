#pragma once
/// @file
/// Descriptor: an open file of the system, and calls on it that signals interrupt.

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace ultra::checkpoint {

/// @brief An open file, closed at the end of the scope.
class Descriptor {
 public:
  /// @param value  the system's number; negative for none.
  explicit Descriptor(int value) : value_(value) {}
  /// @brief Takes another one's file over.
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }

  /// @brief The system's number; negative for none.
  [[nodiscard]] int value() const { return value_; }

  /// @brief Gives the file up; the caller closes it.
  [[nodiscard]] int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

/// @brief Repeats a system call that a signal interrupts.
template <class Call>
int uninterrupted(const Call& call) {
  int result;
  do {
    result = call();
  } while (result == -1 && errno == EINTR);
  return result;
}

}  // namespace ultra::checkpoint
