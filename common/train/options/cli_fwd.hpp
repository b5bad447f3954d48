#pragma once
/// @file
/// Forward declarations of CLI11, which is large: only the sources that use it include it.

/// @brief CLI11, the command-line library.
namespace CLI {
class App;
class Validator;
}  // namespace CLI
