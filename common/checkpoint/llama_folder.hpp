#pragma once
/// @file
/// LlamaFolder: a model as Hugging Face's programs save it, read in parts.
///
///     config.json                              the model's sizes
///     model.safetensors                        its weights, in one file; or
///     model-00001-of-00003.safetensors ...     in several, and
///     model.safetensors.index.json             which weight is in which
///     tokenizer.json ...                       what makes tokens of a text: companion_files()

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/checkpoint/files/file_layer.hpp"
#include "common/checkpoint/safetensors/safetensors.hpp"
#include "common/nn/model.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::checkpoint {

/// @brief The config.json of a folder.
/// @throws FileError when there is none, or it is refused: see parse_model_config().
[[nodiscard]] nn::ModelConfig read_model_config(FileLayer& files,
                                                const std::filesystem::path& folder);

/// @brief A file that belongs to a model, and is neither its sizes nor its weights.
struct CompanionFile {
  std::string name;  ///< in its folder
  std::string text;  ///< all of it
};

/// @brief Names of the files that a tokenizer and generate() need, whether a folder has them or not.
[[nodiscard]] const std::vector<std::string>& companion_names();

/// @brief Those of a folder that are there.
/// @throws FileError when one cannot be read.
[[nodiscard]] std::vector<CompanionFile> companion_files(FileLayer& files,
                                                         const std::filesystem::path& folder);

/// @brief The weights of a folder. Reads what is asked for, and keeps no data.
class LlamaFolder {
 public:
  /// @brief Opens the files with the weights and reads their headers.
  /// @throws FileError when one is missing, cannot be read or is damaged.
  LlamaFolder(FileLayer& files, const std::filesystem::path& folder);

  /// @brief Checks that the folder has as many layers as a model, and a token table of its sizes: to
  /// be asked before such a model is made, which may be too large to make.
  /// @throws FileError that says what the folder has and what config.json says.
  void expect_sizes(const nn::ModelConfig& model) const;

  /// @brief Checks that the folder has all weights of a model, of these shapes, stored as F16, BF16,
  /// F32 or F64, and nothing that the model lacks.
  /// @param model       whose parameters these are.
  /// @param parameters  of the whole model.
  /// @throws FileError that names the tensor, what it is and what it should be.
  void expect_model(const nn::ModelConfig& model,
                    const std::vector<nn::NamedShape>& parameters) const;

  /// @brief Reads consecutive elements of a weight, converted to the type of `out`.
  /// @param name           of the parameter.
  /// @param first_element  row-major index in the whole weight.
  /// @param out            [elements] f32 or f64, contiguous, on the CPU.
  /// Memory: at most 1 MB beside `out`.
  void read(const std::string& name, std::size_t first_element, const Tensor& out) const;

 private:
  using File = std::shared_ptr<const SafetensorsReader>;

  void open_one(FileLayer& files, const std::filesystem::path& path);
  void open_index(FileLayer& files, const std::filesystem::path& index);
  void expect_weight(const std::string& name, const Shape& shape) const;
  void expect_known(const nn::ModelConfig& model, std::string_view name) const;
  [[nodiscard]] bool is_of_module(const nn::ModelConfig& model, std::string_view name) const;

  std::filesystem::path folder_;
  std::map<std::string, File, std::less<>> weights_;  // by name of the weight
};

}  // namespace ultra::checkpoint
