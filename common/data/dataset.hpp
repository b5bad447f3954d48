#pragma once
/// @file
/// Text as tokens, and batches of it whose order does not depend on the layout.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/data/token_mask.hpp"
#include "common/data/token_source.hpp"
#include "common/tensor/philox.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::data {

/// Number of token ids when every byte is a token.
inline constexpr std::size_t kByteVocabulary = 256;

/// @brief A text: one token per byte, where any bytes are allowed, or a file of token ids.
///
/// A handle: copies share the tokens.
/// Memory: bytes are read, not mapped: a mapped file that somebody edits while a training reads it
/// would change the training, and one that shrinks would end it by a signal. Token ids stay in
/// their file, which may be larger than the memory: open_token_file().
class Dataset {
 public:
  /// @brief Takes over the bytes.
  /// @param source  what messages call this text, for example the file's path.
  /// @throws Interrupted when the program is told to stop while it hashes them.
  Dataset(std::vector<std::uint8_t> bytes, std::string source);

  /// @brief Reads a file of bytes.
  /// @throws FileError when it is missing, not a regular file, unreadable, empty or larger than the
  /// memory; Interrupted when the program is told to stop meanwhile.
  [[nodiscard]] static Dataset from_file(const std::filesystem::path& path);

  /// @brief Opens a file of token ids.
  /// @throws FileError as open_token_file() does.
  [[nodiscard]] static Dataset from_tokens(const std::filesystem::path& path, TokenFormat format);

  /// @brief The workbook's own text, data/workbook.txt: the same on every machine and in every
  /// version of the book, whatever a learner edits.
  /// @param root  the workbook's folder.
  /// @throws FileError when it is missing, or not what it was made as.
  [[nodiscard]] static Dataset workbook(const std::filesystem::path& root);

  /// @brief The same text, whose tokens are checked from now on: at once where they are hashed, the
  /// others when they are read.
  /// @throws FileError when a token is not below the size, with its place in the file.
  [[nodiscard]] Dataset with_vocabulary(std::size_t vocab_size) const;

  /// @brief The same text, of which only the tokens of a mask are learnt; its name and its hash have
  /// the mask, too.
  /// @throws FileError as TokenMask does.
  [[nodiscard]] Dataset with_mask(const std::filesystem::path& path) const;

  /// @brief Number of tokens.
  [[nodiscard]] std::size_t size() const { return tokens_->size(); }
  /// @brief Which of them have a loss; null: all.
  [[nodiscard]] const TokenMask* mask() const { return mask_.get(); }
  /// @brief What messages call this text.
  [[nodiscard]] const std::string& source() const { return source_; }
  /// @brief "976.5 KB of text" or "1,234 tokens".
  [[nodiscard]] std::string described_size() const;
  /// @brief A number that stands for the text: see TextHash. Of token ids that take more than 64 MB
  /// it stands for 64 pieces of 1 MB, from the file's begin to its end.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  /// @brief The tokens from `first` on, as many as `tokens` takes; the text must have them.
  /// @throws FileError when a token is not below the vocabulary's size, or cannot be read.
  void read(std::size_t first, std::span<std::int32_t> tokens) const;
  /// @brief The token at an index.
  [[nodiscard]] std::int32_t operator[](std::size_t index) const;

 private:
  Dataset(std::shared_ptr<const TokenSource> tokens, TokenFormat format, std::string source);

  std::shared_ptr<const TokenSource> tokens_;
  std::shared_ptr<const TokenMask> mask_ = {};
  TokenFormat format_ = TokenFormat::kBytes;
  std::string source_;
  std::size_t vocab_size_;
  std::uint64_t hash_ = 0;
};

/// @brief Tokens and, one place further on in the text, their targets: ops::kNoTarget where a mask
/// says that there is no loss.
struct Batch {
  Tensor tokens;   ///< [batch, seq] of i32
  Tensor targets;  ///< [batch, seq] of i32

  /// @brief These on a device; themselves when they are there. Nobody waits for an upload.
  [[nodiscard]] Batch on(const Device& device) const;
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
  /// @brief Tokens per optimizer step: what the mean loss divides by, where all have a loss.
  [[nodiscard]] std::size_t global_tokens() const { return samples_.size() * seq_len_; }

  /// @brief Which part of the tokens of a step's whole global batch has a loss: 1 without a mask. The
  /// same of every share, and known to every rank without a message. Where no token has one it is
  /// one token's part: a sum of nothing can be divided by it.
  /// @param step  0 for the first.
  [[nodiscard]] double part_with_loss(std::size_t step) const;

 private:
  /// The first token of a sequence, by its number.
  [[nodiscard]] std::size_t begin_of(std::size_t number) const {
    return stream_.below(number, dataset_.size() - seq_len_);
  }

  Dataset dataset_;
  std::size_t seq_len_;
  std::size_t sequences_per_step_;  // of the whole global batch
  Range samples_;                   // the part of it that this sampler draws
  PhiloxStream stream_;
};

}  // namespace ultra::data
