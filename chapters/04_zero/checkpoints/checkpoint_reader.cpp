#include "chapters/04_zero/checkpoints/checkpoint_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"
#include "chapters/04_zero/checkpoints/reshard.hpp"
#include "common/base/errors.hpp"
#include "common/checkpoint/checksum.hpp"
#include "common/checkpoint/files/file_damage.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/safetensors/safetensors.hpp"
#include "common/train/run/agree.hpp"

namespace ultra::zero {
namespace {

namespace fs = std::filesystem;
using checkpoint::ElementRun;
using checkpoint::FileLayer;
using checkpoint::SafetensorsReader;
using checkpoint::shown_text;

constexpr std::size_t kBlock = std::size_t{1} << 20;

[[noreturn]] void report(const fs::path& file, std::string_view what) {
  checkpoint::report_damaged_checkpoint(file.string(), what);
}

/// The file is as it was written, and yet not what this training needs.
[[noreturn]] void report_foreign(const fs::path& file, std::string_view what) {
  throw FileError(fmt::format(
      "checkpoint file '{}' is whole, but not of this training: {}. Resume a checkpoint that this "
      "program has saved, with all of its files as they were.",
      file.string(), what));
}

/// Checks that the elements of a tensor need no conversion.
void expect_type(const fs::path& file, const checkpoint::StoredTensor& tensor, DType dtype) {
  const checkpoint::StoredType expected = checkpoint::stored_type_for(dtype);
  if (tensor.type == expected) return;
  report_foreign(file,
                 fmt::format("tensor {} holds elements of {}, --dtype {} needs {}, and nothing is "
                             "converted",
                             shown_text(tensor.name), to_string(tensor.type), to_string(dtype),
                             to_string(expected)));
}

// Checksums ---------------------------------------------------------------------------------------

/// Two files contradict each other: somebody has changed the one or the other.
[[noreturn]] void report_either(const fs::path& path, const std::string& list,
                                std::string_view what) {
  throw FileError(
      fmt::format("checkpoint file '{}' is damaged, or {} is, which lists what was written to it: "
                  "{}. Resume an older checkpoint.",
                  path.string(), list, what));
}

/// What `list` says of a part of a file.
void expect_checksum(FileLayer& files, const fs::path& folder, const WrittenPart& part,
                     const std::string& list) {
  const fs::path path = folder / part.file;
  const auto file = files.open_for_reading(path);
  if (part.bytes > file->size() || part.offset > file->size() - part.bytes) {
    report_either(path, list,
                  fmt::format("the file has {} bytes, and {} bytes from {} on are listed",
                              file->size(), part.bytes, part.offset));
  }
  std::vector<std::byte> block(std::min<std::size_t>(kBlock, part.bytes));
  std::uint32_t crc32 = 0;
  for (std::uint64_t done = 0; done < part.bytes; done += block.size()) {
    const auto bytes = std::span(block).first(std::min<std::size_t>(kBlock, part.bytes - done));
    file->read_at(part.offset + done, bytes);
    crc32 = checkpoint::crc32_of(bytes, crc32);
  }
  if (crc32 == part.crc32) return;
  report_either(path, list,
                fmt::format("bytes {} to {} have the checksum {:08x}, and {:08x} is listed",
                            part.offset, part.offset + part.bytes, crc32, part.crc32));
}

/// The lists of all writers, for a message.
std::string lists_of(int writers) {
  return writers == 1 ? parts_file(0, 1) : fmt::format("parts-*-of-{:05}.json", writers);
}

/// Checks that the parts of a file are all of it.
void expect_whole(FileLayer& files, const fs::path& path, std::vector<WrittenPart> parts,
                  int writers) {
  std::ranges::sort(parts, {}, &WrittenPart::offset);
  std::uint64_t end = 0;
  for (const WrittenPart& part : parts) {
    if (part.offset == end) end += part.bytes;
  }
  const std::uint64_t size = files.open_for_reading(path)->size();
  if (end == size) return;
  report_either(path, lists_of(writers),
                fmt::format("listed are its bytes up to {}, and the file has {}", end, size));
}

/// What a writer has written, by its list.
std::vector<WrittenPart> parts_of(FileLayer& files, const fs::path& folder, int writer,
                                  int writers) {
  const fs::path list = folder / parts_file(writer, writers);
  const std::string optimizer = optimizer_file(writer, writers);
  std::vector<WrittenPart> parts = parse_parts(checkpoint::read_text(files, list), list.string());
  if (parts.empty()) report(list, "it lists nothing");
  const std::vector<std::string>& companions = checkpoint::companion_names();
  for (const WrittenPart& part : parts) {
    const auto known = {std::string_view(kRecordFile), std::string_view(kConfigFile),
                        std::string_view(kWeightsFile), std::string_view(optimizer)};
    if (std::ranges::find(known, part.file) != known.end()) continue;
    if (std::ranges::find(companions, part.file) != companions.end()) continue;
    report(list, fmt::format("its file {} is none that this rank can have written",
                             shown_text(part.file)));
  }
  return parts;
}

/// Every rank looks at what some of the writers have written.
void expect_checksums(FileLayer& files, const fs::path& folder, int writers,
                      const Communicator& world) {
  std::map<std::string, std::vector<WrittenPart>> by_file;
  for (const char* file : {kRecordFile, kConfigFile, kWeightsFile}) by_file[file] = {};
  for (int writer = 0; writer < writers; ++writer) {
    by_file[optimizer_file(writer, writers)];
    for (const WrittenPart& part : parts_of(files, folder, writer, writers)) {
      by_file[part.file].push_back(part);
      if (writer % world.size() != world.rank()) continue;
      expect_checksum(files, folder, part, parts_file(writer, writers));
    }
  }
  for (const auto& [file, parts] : by_file) expect_whole(files, folder / file, parts, writers);
}

// Tensors -----------------------------------------------------------------------------------------

/// A tensor of an optimizer file.
struct StateTensor {
  std::size_t file;  ///< its file
  std::string name;  ///< its name there
};

/// One state of a parameter: the tensors that hold it, and which elements each has.
struct StatePieces {
  std::vector<StateTensor> tensors;
  std::vector<PieceRows> pieces;
};

/// Elements to copy from a stored tensor.
struct StateCopy {
  const StateTensor* tensor;
  std::size_t from, to, count;
};

/// All tensors of a checkpoint.
class StoredState {
 public:
  StoredState(FileLayer& files, const fs::path& folder, int writers, DType dtype,
              const TrainingState& state)
      : folder_(folder), dtype_(dtype), state_(state), weights_(files, folder / kWeightsFile) {
    for (int writer = 0; writer < writers; ++writer) {
      const fs::path path = folder / optimizer_file(writer, writers);
      optimizers_.push_back(std::make_unique<SafetensorsReader>(files, path));
      add_names(path, optimizers_.size() - 1);
    }
  }

  /// Checks that there are the optimizer's states of all pieces that a rank needs.
  void expect_states() const {
    for (std::size_t i = 0; i < state_.pieces().size(); ++i) {
      const train::OwnedPiece& piece = state_.pieces()[i];
      for (const ElementRun& run : runs_of(piece)) {
        for (const optim::StateSpec& spec : state_.specs(i)) {
          static_cast<void>(copies_of(spec.name, piece.parameter->name(), run));
        }
      }
    }
  }

  /// Checks that model.safetensors holds the weights of a model, and no others.
  void expect_weights() const {
    const fs::path path = folder_ / kWeightsFile;
    for (const nn::NamedShape& parameter : state_.parameters()) {
      const checkpoint::StoredTensor* stored = weights_.find(parameter.name);
      if (stored == nullptr) {
        report_foreign(path, fmt::format("it has no tensor {}", shown_text(parameter.name)));
      }
      expect_type(path, *stored, dtype_);
      if (std::ranges::equal(stored->shape, parameter.shape.dims())) continue;
      report_foreign(
          path,
          fmt::format("its tensor {} has shape {}, the model's has {}", shown_text(parameter.name),
                      checkpoint::shown_shape(stored->shape), parameter.shape.str()));
    }
    if (weights_.tensors().size() == state_.parameters().size()) return;
    report_foreign(path, fmt::format("it has {} tensors, the model has {}",
                                     weights_.tensors().size(), state_.parameters().size()));
  }

  // [region read_piece]
  void read(std::size_t i, const PieceValues& values) const {
    const train::OwnedPiece& piece = state_.pieces()[i];
    const optim::StateSpecs specs = state_.specs(i);
    const std::string& name = piece.parameter->name();
    for (const ElementRun& run : runs_of(piece)) {
      weights_.read(name, run.global, part(values.weights, run.local, run.count));
      for (std::size_t s = 0; s < specs.size(); ++s) {
        read_state(specs[s].name, name, run, values.states[s]);
      }
    }
  }
  // [/region]

 private:
  static Tensor part(const Tensor& values, std::size_t begin, std::size_t count) {
    return values.slice(0, {begin, begin + count});
  }

  void add_names(const fs::path& path, std::size_t file) {
    for (const checkpoint::StoredTensor& tensor : optimizers_[file]->tensors()) {
      const auto name = parse_state_name(tensor.name);
      const std::size_t dimensions = name && name->stride > 0 ? 2 : 1;
      if (!name || !state_.keeps(name->state) || tensor.shape.size() != dimensions) {
        report_foreign(path, fmt::format("its tensor {} is none of the optimizer's states",
                                         shown_text(tensor.name)));
      }
      expect_type(path, tensor, dtype_);
      StatePieces& state = states_[{name->state, name->parameter}];
      state.tensors.push_back({.file = file, .name = tensor.name});
      state.pieces.push_back({.first_row = {name->begin, name->begin + tensor.shape.back()},
                              .rows = dimensions == 2 ? tensor.shape.front() : 1,
                              .stride = name->stride});
    }
  }

  /// Where a state of some elements is.
  std::vector<StateCopy> copies_of(std::string_view state, const std::string& parameter,
                                   const ElementRun& run) const {
    std::vector<StateCopy> copies;
    std::size_t count = 0;
    const auto found = states_.find({std::string(state), parameter});
    if (found != states_.end()) {
      const auto& [tensors, pieces] = found->second;
      for (const PieceCopy& copy : copies_from_rows(pieces, {run.global, run.global + run.count})) {
        copies.push_back({&tensors[copy.piece], copy.from, copy.to, copy.count});
        count += copy.count;
      }
    }
    if (count == run.count) return copies;
    report_foreign(folder_ / "optimizer-*.safetensors",
                   fmt::format("of {} of {} there are {} of the {} elements from {} on", state,
                               shown_text(parameter), count, run.count, run.global));
  }

  void read_state(std::string_view state, const std::string& parameter, const ElementRun& run,
                  const Tensor& out) const {
    for (const StateCopy& copy : copies_of(state, parameter, run)) {
      optimizers_[copy.tensor->file]->read(copy.tensor->name, copy.from,
                                           part(out, run.local + copy.to, copy.count));
    }
  }

  fs::path folder_;
  DType dtype_;
  const TrainingState& state_;
  SafetensorsReader weights_;
  std::vector<std::unique_ptr<SafetensorsReader>> optimizers_;
  /// By state and parameter.
  std::map<std::pair<std::string, std::string>, StatePieces> states_;
};

}  // namespace

TrainingRecord load_checkpoint(FileLayer& files, const fs::path& folder,
                               const TrainingIdentity& identity, TrainingState& state,
                               const Communicator& world) {
  TrainingRecord record;
  std::unique_ptr<StoredState> stored;
  train::agree(world, [&] {
    const fs::path path = folder / kRecordFile;
    record = parse_record(checkpoint::read_text(files, path), path.string());
    expect_checksums(files, folder, record.writers, world);
  });
  // Each rank has looked at some of the bytes: what they say counts when all are as written.
  train::agree(world, [&] {
    identity.expect_same(record.identity, folder.string());
    stored = std::make_unique<StoredState>(files, folder, record.writers, identity.dtype, state);
    stored->expect_weights();
    stored->expect_states();
  });
  state.load(record.optimizer_steps,
             [&](std::size_t piece, const PieceValues& values) { stored->read(piece, values); });
  state.load_numbers(record.numbers);
  return record;
}

}  // namespace ultra::zero
