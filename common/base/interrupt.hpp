#pragma once
/// @file
/// Ctrl-C as an error: a program that is told to stop unwinds, so that no partial file stays.

#include "common/base/errors.hpp"

namespace ultra {

/// @brief The user or the system asked this program to stop (SIGINT, SIGTERM).
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// @brief While it lives, the first SIGINT or SIGTERM is remembered; the second one ends the program.
///
/// Signals belong to the process, so there should be one of these, in main's frame.
class InterruptGuard {
 public:
  /// @brief Installs the handlers.
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  /// Restores the default handlers and forgets a remembered signal.
  ~InterruptGuard();
};

/// @brief Throws Interrupted when a signal has come since the guard was made.
///
/// Whatever takes long calls it often, and where stopping is safe: between training steps, before a
/// matrix product, between the events of a simulation. Of several ranks one that throws is enough:
/// the others learn of it where they wait for it.
void throw_if_interrupted();

}  // namespace ultra
