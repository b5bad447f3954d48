#pragma once
/// @file
/// The files of a checkpoint, and what each holds.
///
///     step-00000100/
///       training.json                          which training, which step, all losses so far
///       config.json, model.safetensors         the weights, as Hugging Face's Llama or Mixtral
///       tokenizer.json ...                     what came with the weights of --init
///       optimizer-00000-of-00004.safetensors   optimizer states of the pieces that rank 0 owned
///       ...
///       parts-00000-of-00004.json              which bytes rank 0 wrote, with their checksums
///       ...
///
/// The weights are one file, as other programs expect it; every rank writes its pieces where they
/// belong.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/04_zero/checkpoints/training_record.hpp"
#include "chapters/04_zero/checkpoints/training_state.hpp"
#include "common/checkpoint/llama_folder.hpp"
#include "common/checkpoint/safetensors/element_runs.hpp"
#include "common/checkpoint/safetensors/safetensors_header.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/weights/piece_runs.hpp"

namespace ultra::zero {

/// @brief File names in a checkpoint.
inline constexpr const char* kRecordFile = "training.json";
inline constexpr const char* kConfigFile = "config.json";         ///< Hugging Face's
inline constexpr const char* kWeightsFile = "model.safetensors";  ///< Hugging Face's

/// @brief "optimizer-00001-of-00004.safetensors".
[[nodiscard]] std::string optimizer_file(int writer, int writers);
/// @brief "parts-00001-of-00004.json".
[[nodiscard]] std::string parts_file(int writer, int writers);

/// @brief What comes before the weights in model.safetensors.
[[nodiscard]] checkpoint::SafetensorsHeader weights_header(const TrainingState& state, DType dtype);

/// @brief Which state of an optimizer, and of which elements.
struct StateName {
  std::string state;      ///< optim::StateSpec::name
  std::string parameter;  ///< its name
  std::size_t begin = 0;  ///< first element of the whole parameter
  std::size_t stride =
      0;  ///< from each row of the stored tensor to the next, in elements of the whole
          ///< parameter; 0: they follow each other, and the tensor has one dimension
};

/// @brief "exp_avg/model.norm.weight@128": a tensor of an optimizer file. With a stride,
/// "exp_avg/model.layers.0.mlp.down_proj.weight@96+384".
[[nodiscard]] std::string to_string(const StateName& name);
/// @brief Reads to_string's text; nothing for any other.
[[nodiscard]] std::optional<StateName> parse_state_name(std::string_view text);

/// @brief Runs of the same length and at the same distance from each other: some columns of a
/// matrix.
struct RowsOfRuns {
  checkpoint::ElementRun first;  ///< the others have its length
  std::size_t rows = 1;          ///< how many
  std::size_t stride = 0;        ///< from run to run in the whole tensor; 0 for one run
};

/// @brief Runs as few groups of rows as possible, in their order.
[[nodiscard]] std::vector<RowsOfRuns> rows_of(const std::vector<checkpoint::ElementRun>& runs);

/// @brief Bytes that a rank will write to a file of a checkpoint.
struct PendingPart {
  std::string file;          ///< its name
  std::uint64_t offset = 0;  ///< of the first byte
  std::string text;          ///< the bytes, if they are no numbers
  Tensor values;             ///< else: contiguous, on the CPU

  /// @brief What to write.
  [[nodiscard]] std::span<const std::byte> bytes() const;
};

/// @brief What other programs need besides the weights.
struct Companions {
  std::string config = {};  ///< config.json of the model that the training began with; empty: ours
  std::vector<checkpoint::CompanionFile> files = {};  ///< as they were
};

/// @brief Those of the folder of a model or a checkpoint.
/// @throws FileError when one cannot be read.
[[nodiscard]] Companions companions_of(checkpoint::FileLayer& files,
                                       const std::filesystem::path& folder);

/// @brief A copy of all that a rank will write to a checkpoint, in the host's memory.
struct PendingFiles {
  std::vector<PendingPart> parts;   ///< those of one file follow each other
  std::uint64_t weights_bytes = 0;  ///< length of model.safetensors, which the ranks write together
};

/// @brief Copies a rank's state. Training may go on when it returns.
/// @param record      of the training; rank 0 writes it.
/// @param companions  rank 0 writes them; of other ranks not looked at.
/// Memory: the weights and states that the rank saves, on the host.
[[nodiscard]] PendingFiles pending_files(const TrainingState& state, const TrainingRecord& record,
                                         int rank, const Companions& companions = {});

/// @brief Bytes that a rank has written, with their checksum.
struct WrittenPart {
  std::string file;          ///< its name
  std::uint64_t offset = 0;  ///< of the first byte
  std::uint64_t bytes = 0;   ///< how many
  std::uint32_t crc32 = 0;   ///< of them
};

/// @brief As JSON, for a parts file.
[[nodiscard]] std::string to_json(const std::vector<WrittenPart>& parts);
/// @brief Reads to_json's text.
/// @throws FileError that says what is wrong; `path` is for the message.
[[nodiscard]] std::vector<WrittenPart> parse_parts(const std::string& text,
                                                   const std::string& path);

}  // namespace ultra::zero
