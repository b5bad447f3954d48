#pragma once
/// @file
/// The JSON of a safetensors header: to text, and from text that may hold anything.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/safetensors/safetensors_header.hpp"

namespace ultra::checkpoint {

/// @brief What the JSON says. It has the right form, but offsets and shapes may be anything.
struct HeaderContent {
  std::vector<StoredTensor> tensors;  ///< in the order of the text
  Metadata metadata;                  ///< empty when the text has none
};

/// @brief The JSON without any space; no text of the same content is shorter.
/// @throws ConfigError for a name or a metadata text that is not UTF-8.
[[nodiscard]] std::string write_header_json(std::span<const StoredTensor> tensors,
                                            const Metadata& metadata);

/// @brief Reads the JSON, without building a tree of it: what does not belong there ends the work.
/// @param path  for messages.
/// @throws FileError when it is not JSON, or says something else than a header does.
[[nodiscard]] HeaderContent read_header_json(std::string_view text, const std::string& path);

}  // namespace ultra::checkpoint
