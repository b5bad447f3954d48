#pragma once
/// @file
/// Flat files of token ids, as nanoGPT and llm.c write them.

#include <filesystem>
#include <memory>

#include "common/data/token_source.hpp"

namespace ultra::data {

/// @brief Opens a file of token ids, one after the other and nothing else (nanoGPT), or after
/// llm.c's header of 256 numbers.
///
/// The tokens are read where they are asked for, through the system's cache of pages, so that a
/// file larger than the memory trains. The file is not mapped: a mapped file that shrinks ends the
/// program by a signal, this one by a FileError.
/// @param format  kU16 or kU32.
/// @throws FileError when it is missing, not a regular file, unreadable, empty, not a whole number
/// of tokens, or has a header that says something else.
/// Source: github.com/karpathy/nanoGPT, data/; github.com/karpathy/llm.c, dev/data/data_common.py.
[[nodiscard]] std::shared_ptr<const TokenSource> open_token_file(const std::filesystem::path& path,
                                                                 TokenFormat format);

/// @brief Checks that a file is there and can be a text: not a folder, a device or a pipe.
/// @throws FileError that says what it is instead.
void expect_data_file(const std::filesystem::path& path);

}  // namespace ultra::data
