#include "chapters/04_zero/checkpoints/checkpoint_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "chapters/04_zero/checkpoints/trained_mixture.hpp"
#include "common/base/json.hpp"
#include "common/base/text.hpp"
#include "common/checkpoint/json_file.hpp"
#include "common/checkpoint/models/config_json.hpp"

namespace ultra::zero {
namespace {

using checkpoint::ElementRun;
using checkpoint::SafetensorsHeader;
using checkpoint::TensorSpec;

std::string text_of(const SafetensorsHeader& header) {
  const std::vector<std::byte> bytes = header.to_bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string config_text(const Companions& companions, const TrainingIdentity& identity) {
  std::string text =
      companions.config.empty()
          ? checkpoint::model_config_json(identity.model, identity.dtype)
          : checkpoint::config_with_dtype(companions.config, identity.dtype, kConfigFile);
  const std::optional<checkpoint::MixtureConfig> mixture = mixture_of(identity.flags);
  return mixture ? checkpoint::config_with_mixture(text, *mixture, kConfigFile) : text;
}

/// What a rank saves of its state, in the order of its files.
class Collector {
 public:
  Collector(const TrainingState& state, DType dtype) : state_(state), dtype_(dtype) {
    for (std::size_t i = 0; i < state.pieces().size(); ++i) {
      if (state.saves(i)) copies_.push_back({.piece = i, .values = state.copy(i)});
    }
  }

  void add_weights(const SafetensorsHeader& header, std::vector<PendingPart>& parts) const {
    for (const Copy& copy : copies_) {
      const train::OwnedPiece& piece = state_.pieces()[copy.piece];
      const checkpoint::StoredTensor& stored = *header.find(piece.parameter->name());
      for (const ElementRun& run : runs_of(piece)) {
        parts.push_back({.file = kWeightsFile,
                         .offset = header.offset_of(stored, run.global),
                         .text = {},
                         .values = part(copy.values.weights, run)});
      }
    }
  }

  void add_states(const std::string& file, std::vector<PendingPart>& parts) const {
    std::vector<TensorSpec> specs;
    std::vector<Tensor> values;
    for (const Copy& copy : copies_) {
      const train::OwnedPiece& piece = state_.pieces()[copy.piece];
      for (const RowsOfRuns& rows : rows_of(runs_of(piece))) {
        const ElementRun& run = rows.first;
        std::vector<std::size_t> shape = {run.count};
        if (rows.rows > 1) shape.insert(shape.begin(), rows.rows);
        const optim::StateSpecs states = state_.specs(copy.piece);
        for (std::size_t s = 0; s < states.size(); ++s) {
          specs.push_back(
              {.name = to_string(StateName{std::string(states[s].name), piece.parameter->name(),
                                           run.global, rows.stride}),
               .type = checkpoint::stored_type_for(dtype_),
               .shape = shape});
          values.push_back(
              copy.values.states[s].slice(0, {run.local, run.local + rows.rows * run.count}));
        }
      }
    }
    const SafetensorsHeader header = checkpoint::make_header(specs);
    parts.push_back({.file = file, .offset = 0, .text = text_of(header), .values = {}});
    for (std::size_t i = 0; i < specs.size(); ++i) {
      parts.push_back({.file = file,
                       .offset = header.offset_of(*header.find(specs[i].name), 0),
                       .text = {},
                       .values = values[i]});
    }
  }

 private:
  struct Copy {
    std::size_t piece;
    PieceValues values;
  };

  static Tensor part(const Tensor& values, const ElementRun& run) {
    return values.slice(0, {run.local, run.local + run.count});
  }

  const TrainingState& state_;
  DType dtype_;
  std::vector<Copy> copies_;
};

}  // namespace

std::vector<RowsOfRuns> rows_of(const std::vector<ElementRun>& runs) {
  std::vector<RowsOfRuns> found;
  for (const ElementRun& run : runs) {
    if (!found.empty()) {
      RowsOfRuns& last = found.back();
      const std::size_t distance = run.global - last.first.global;
      const std::size_t stride = last.rows == 1 ? distance : last.stride;
      if (run.count == last.first.count && distance == last.rows * stride) {
        last.stride = stride;
        ++last.rows;
        continue;
      }
    }
    found.push_back({.first = run});
  }
  return found;
}

std::string optimizer_file(int writer, int writers) {
  return fmt::format("optimizer-{:05}-of-{:05}.safetensors", writer, writers);
}

std::string parts_file(int writer, int writers) {
  return fmt::format("parts-{:05}-of-{:05}.json", writer, writers);
}

SafetensorsHeader weights_header(const TrainingState& state, DType dtype) {
  std::vector<TensorSpec> specs;
  for (const nn::NamedShape& parameter : state.parameters()) {
    const auto dims = parameter.shape.dims();
    specs.push_back({.name = parameter.name,
                     .type = checkpoint::stored_type_for(dtype),
                     .shape = {dims.begin(), dims.end()}});
  }
  return checkpoint::make_header(specs, {{"format", "pt"}});
}

std::string to_string(const StateName& name) {
  const std::string rows = name.stride > 0 ? fmt::format("+{}", name.stride) : "";
  return fmt::format("{}/{}@{}{}", name.state, name.parameter, name.begin, rows);
}

std::optional<StateName> parse_state_name(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::size_t at = text.rfind('@');
  if (slash == std::string_view::npos || at == std::string_view::npos || at < slash) return {};
  if (slash == 0) return {};
  const std::string_view place = text.substr(at + 1);
  const std::size_t plus = place.find('+');
  const auto begin = parse_number<std::uint64_t>(place.substr(0, plus));
  const auto stride = plus == std::string_view::npos
                          ? std::optional<std::uint64_t>(0)
                          : parse_number<std::uint64_t>(place.substr(plus + 1));
  if (!begin || !stride || (plus != std::string_view::npos && *stride == 0)) return {};
  return StateName{.state = std::string(text.substr(0, slash)),
                   .parameter = std::string(text.substr(slash + 1, at - slash - 1)),
                   .begin = *begin,
                   .stride = *stride};
}

std::span<const std::byte> PendingPart::bytes() const {
  if (!values.defined()) return std::as_bytes(std::span(text));
  if (values.dtype() == DType::kF64) return std::as_bytes(values.span<double>());
  return std::as_bytes(values.span<float>());
}

Companions companions_of(checkpoint::FileLayer& files, const std::filesystem::path& folder) {
  return {.config = checkpoint::read_text(files, folder / kConfigFile),
          .files = checkpoint::companion_files(files, folder)};
}

// [region pending_files]
PendingFiles pending_files(const TrainingState& state, const TrainingRecord& record, int rank,
                           const Companions& companions) {
  const DType dtype = record.identity.dtype;
  const SafetensorsHeader header = weights_header(state, dtype);
  const Collector collector(state, dtype);
  PendingFiles pending;
  pending.weights_bytes = header.file_size();
  const auto add_text = [&](const std::string& file, std::string text) {
    pending.parts.push_back({.file = file, .offset = 0, .text = std::move(text), .values = {}});
  };
  if (rank == 0) {
    add_text(kRecordFile, to_json(record));
    add_text(kConfigFile, config_text(companions, record.identity));
    for (const auto& [name, text] : companions.files) add_text(name, text);
    add_text(kWeightsFile, text_of(header));
  }
  collector.add_weights(header, pending.parts);
  collector.add_states(optimizer_file(rank, record.writers), pending.parts);
  return pending;
}
// [/region]

std::string to_json(const std::vector<WrittenPart>& parts) {
  Json json = Json::array();
  for (const WrittenPart& part : parts) {
    json.push_back({{"file", part.file},
                    {"offset", part.offset},
                    {"bytes", part.bytes},
                    {"crc32", part.crc32}});
  }
  return json.dump(1) + "\n";
}

std::vector<WrittenPart> parse_parts(const std::string& text, const std::string& path) {
  return checkpoint::read_json(text, path, [](const Json& list) {
    std::vector<WrittenPart> parts;
    for (const Json& part : list.elements()) {
      parts.push_back({.file = part.at("file").get<std::string>(),
                       .offset = checkpoint::whole_number_in<std::uint64_t>(part, "offset"),
                       .bytes = checkpoint::whole_number_in<std::uint64_t>(part, "bytes"),
                       .crc32 = checkpoint::whole_number_in<std::uint32_t>(part, "crc32")});
    }
    return parts;
  });
}

}  // namespace ultra::zero
