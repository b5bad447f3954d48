#pragma once
/// @file
/// What the executable of chapter 09 does when its flags are read.

#include "chapters/09_kernels/kernels_options.hpp"

namespace ultra::ladders {

/// @brief Prints what the flags ask for: the list, or the table of a ladder that it runs.
/// @throws ConfigError for flags that cannot work, FileError for --metrics, RungFailed for a rung
/// that is wrong, NotWritten for one that is a stub; the latter two after all rungs were run.
void run_ladder_program(const KernelsOptions& options);

}  // namespace ultra::ladders
