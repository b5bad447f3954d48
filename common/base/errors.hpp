#pragma once
/// @file
/// The errors of the project: one base class, one subclass per kind of cause.
///
/// A message names the thing, what was found, what was expected and what to do, in one line: the
/// executables print it as it is and exit with code 2.

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ultra {

/// @brief Base of every error that this project throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// @brief Tensor shapes, strides or dtypes that do not fit the operation.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// @brief A configuration or command line that cannot work; the message holds the equation.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// @brief A file that is missing, unreadable, unwritable or has the wrong content.
class FileError : public Error {
 public:
  using Error::Error;
};

/// @brief A number that training cannot go on with: a loss or gradient norm that is NaN or infinite.
class NumericError : public Error {
 public:
  using Error::Error;
};

/// @brief Memory that a device lacks, or must not use; the message holds what the rest is used for.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// @brief An answer that is not what a script asserted; the message holds what it is.
class NotAsAsserted : public Error {
 public:
  using Error::Error;
};

/// @brief A broken invariant of our own code: always a bug, never the user's mistake.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// @brief Thrown by the body of an exercise that nobody has written yet.
class NotWritten : public Error {
 public:
  /// @param exercise number and name, for example "01.2 rms_norm_backward".
  explicit NotWritten(std::string_view exercise);
};

/// @brief Throws InternalError with the caller's file and line when `condition` is false.
///
/// Takes a plain literal so that a passing check costs one branch.
void ensure(bool condition, const char* what,
            std::source_location where = std::source_location::current());

}  // namespace ultra
