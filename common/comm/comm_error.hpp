#pragma once
/// @file
/// What can go wrong between ranks. No failure hangs: each ends in one of these on every rank.

#include <cstdint>
#include <exception>
#include <string>

#include "common/base/errors.hpp"

namespace ultra {

/// @brief What kind of error a rank ended with: what another rank must know to end alike.
enum class ErrorKind : std::uint8_t {
  kOther,        ///< not one of ours
  kBadInput,     ///< ConfigError, ShapeError, FileError, NumericError, OutOfMemory
  kNotWritten,   ///< an exercise
  kInterrupted,  ///< Ctrl-C or SIGTERM
  kComm,         ///< a CommError, or a rank that was killed
};

/// @brief The kind of an error that was caught.
[[nodiscard]] ErrorKind kind_of(const std::exception_ptr& error);

/// @brief The message of an error that was caught.
[[nodiscard]] std::string message_of(const std::exception_ptr& error);

/// @brief Base of the errors of communication.
class CommError : public Error {
 public:
  using Error::Error;
};

/// @brief Another rank threw, was killed or has left; the message names it and what it said.
class RankFailed : public CommError {
 public:
  /// @param failed_rank  its rank in the world.
  /// @param kind         of its error.
  RankFailed(int failed_rank, ErrorKind kind, const std::string& message)
      : CommError(message), failed_rank_(failed_rank), kind_(kind) {}
  /// @brief The guilty rank, counted in the world.
  [[nodiscard]] int failed_rank() const { return failed_rank_; }
  /// @brief What kind of error it ended with.
  [[nodiscard]] ErrorKind kind() const { return kind_; }

 private:
  int failed_rank_;
  ErrorKind kind_;
};

/// @brief An operation did not end in time; the message names the ranks that are missing.
class CommTimeout : public CommError {
 public:
  using CommError::CommError;
};

/// @brief Ranks called different operations where they should call the same.
class CommMismatch : public CommError {
 public:
  using CommError::CommError;
};

/// @brief Every rank waits for another one: nothing can ever move again.
class Deadlock : public CommError {
 public:
  using CommError::CommError;
};

}  // namespace ultra
