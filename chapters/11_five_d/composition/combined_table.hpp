#pragma once
/// @file
/// The table behind a training along several axes: what each stage took and all ranks sent, beside
/// the closed forms of the combined layout.

#include <memory>

#include "common/train/program/technique.hpp"

namespace ultra::five_d {

/// @brief The table as a technique: where a training has two axes or more, it stands in place of
/// the tables of the chapters, which know fewer.
[[nodiscard]] std::unique_ptr<train::Technique> combined_table();

}  // namespace ultra::five_d
