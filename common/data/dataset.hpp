#pragma once
/// @file
/// Text as byte tokens, and batches of it whose order does not depend on the layout.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/tensor/philox.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::data {

/// Number of token ids when every byte is a token.
inline constexpr std::size_t kByteVocabulary = 256;

/// @brief A text, one token per byte. Any bytes are allowed: a binary file is a text too.
///
/// A handle: copies share the bytes.
/// Memory: the text's bytes. They are read, not mapped: a mapped file that somebody edits while a
/// training reads it would change the training, and one that shrinks would end it by a signal.
class Dataset {
 public:
  /// @brief Takes over the bytes.
  /// @param source  what messages call this text, for example the file's path.
  /// @throws Interrupted when the program is told to stop while it hashes them.
  Dataset(std::vector<std::uint8_t> bytes, std::string source);

  /// @brief Reads a file.
  /// @throws FileError when it is missing, not a regular file, unreadable, empty or larger than the
  /// memory; Interrupted when the program is told to stop meanwhile.
  [[nodiscard]] static Dataset from_file(const std::filesystem::path& path);

  /// @brief The workbook's own text, data/workbook.txt: the same on every machine and in every
  /// version of the book, whatever a learner edits.
  /// @param root  the workbook's folder.
  /// @throws FileError when it is missing, or not what it was made as.
  [[nodiscard]] static Dataset workbook(const std::filesystem::path& root);

  /// @brief Number of tokens.
  [[nodiscard]] std::size_t size() const { return bytes_->size(); }
  /// @brief What messages call this text.
  [[nodiscard]] const std::string& source() const { return source_; }
  /// @brief A number that stands for the text: see TextHash.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  /// @brief The token at an index.
  [[nodiscard]] std::int32_t operator[](std::size_t index) const { return (*bytes_)[index]; }

 private:
  std::shared_ptr<const std::vector<std::uint8_t>> bytes_;
  std::string source_;
  std::uint64_t hash_;
};

/// @brief Tokens and, one place further on in the text, their targets.
struct Batch {
  Tensor tokens;   ///< [batch, seq] of i32
  Tensor targets;  ///< [batch, seq] of i32
};

/// @brief Draws sequences at random places of a text.
///
/// Sequence i of step t depends on (seed, t, i) alone: however a global batch is split into ranks
/// and micro-batches, all of them together see the same sequences.
class Sampler {
 public:
  /// @param global_batch_size  sequences per optimizer step, over all ranks.
  /// @throws FileError when the text has fewer than seq_len + 1 tokens.
  Sampler(Dataset dataset, std::size_t seq_len, std::size_t global_batch_size, std::uint64_t seed);

  /// @brief Sequences `samples` of the global batch of a step, in order.
  /// @param step     0 for the first.
  /// @param samples  range within [0, global_batch_size).
  [[nodiscard]] Batch batch(const Device& device, std::size_t step, Range samples) const;

  /// @brief The sampler of a part of each global batch, which is its whole batch: sequence i of it is
  /// sequence `samples.begin + i` here.
  /// @param samples  range within [0, global_batch_size).
  [[nodiscard]] Sampler share(Range samples) const;

  /// @brief The number of a sequence among all that a run draws: the same in every layout.
  /// @param step    0 for the first.
  /// @param sample  of this sampler's share.
  [[nodiscard]] std::size_t number_of(std::size_t step, std::size_t sample) const {
    return step * sequences_per_step_ + samples_.begin + sample;
  }

  /// @brief The text.
  [[nodiscard]] const Dataset& dataset() const { return dataset_; }
  /// @brief Sequences per optimizer step.
  [[nodiscard]] std::size_t global_batch_size() const { return samples_.size(); }
  /// @brief Tokens per sequence.
  [[nodiscard]] std::size_t seq_len() const { return seq_len_; }
  /// @brief Tokens per optimizer step: what the mean loss divides by.
  [[nodiscard]] std::size_t global_tokens() const { return samples_.size() * seq_len_; }

 private:
  Dataset dataset_;
  std::size_t seq_len_;
  std::size_t sequences_per_step_;  // of the whole global batch
  Range samples_;                   // the part of it that this sampler draws
  PhiloxStream stream_;
};

}  // namespace ultra::data
