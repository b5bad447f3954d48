#include "tests/support/files/llama_folder.hpp"

#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "common/checkpoint/models/config_json.hpp"
#include "common/checkpoint/safetensors/safetensors_header.hpp"
#include "common/nn/model.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::test {
namespace {

using checkpoint::StoredType;

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::uint16_t half_of(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (value == 0) return sign;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const double bits = std::ldexp(fraction, 11) - 1024;
  if (exponent < -13 || exponent > 16 || bits != std::floor(bits)) {
    throw std::invalid_argument("a number that binary16 does not hold");
  }
  return static_cast<std::uint16_t>(sign | ((exponent + 14) << 10) | static_cast<int>(bits));
}

/// Multiples of 1/1024 below 1/16, and of 1/128 around 1: few bits, whatever the type.
double drawn(const nn::NamedShape& parameter, Random& random) {
  const auto step = static_cast<double>(random.between(0, 120)) - 60;
  return parameter.shape.rank() == 1 ? 1 + step / 128 : step / 1024;
}

std::string file_of(const std::vector<checkpoint::TensorSpec>& specs,
                    const std::map<std::string, std::string>& data) {
  const checkpoint::SafetensorsHeader header = checkpoint::make_header(specs, {{"format", "pt"}});
  const std::vector<std::byte> start = header.to_bytes();
  std::string file(reinterpret_cast<const char*>(start.data()), start.size());
  for (const checkpoint::StoredTensor& tensor : header.tensors()) file += data.at(tensor.name);
  return file;
}

}  // namespace

std::string stored_bytes(double value, StoredType type) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case StoredType::kF64:
      return bytes_of(value);
    case StoredType::kF32:
      return bytes_of(single);
    case StoredType::kBF16:
      return bytes_of(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(single) >> 16U));
    case StoredType::kF16:
      return bytes_of(half_of(value));
    default:
      throw std::invalid_argument("a type that is not written");
  }
}

LlamaWeights write_llama_folder(const TemporaryFolder& parent, const std::string& name,
                                const LlamaFolderSpec& spec, Random& random) {
  nn::DenseFactory factory;
  LlamaWeights weights;
  std::vector<std::vector<checkpoint::TensorSpec>> specs(spec.files);
  std::map<std::string, std::string> data;
  nlohmann::json map;
  for (const nn::NamedShape& parameter : nn::named_shapes(spec.model, factory)) {
    const std::size_t file = random.between(0, spec.files - 1);
    const auto dims = parameter.shape.dims();
    specs[file].push_back(
        {.name = parameter.name, .type = spec.type, .shape = {dims.begin(), dims.end()}});
    map[parameter.name] = fmt::format("part-{}.safetensors", file);
    std::string& bytes = data[parameter.name];
    weights.emplace_back();
    for (std::size_t i = 0; i < parameter.shape.numel(); ++i) {
      weights.back().push_back(drawn(parameter, random));
      bytes += stored_bytes(weights.back().back(), spec.type);
    }
  }
  parent.write(name + "/config.json", checkpoint::model_config_json(spec.model, DType::kF32));
  if (spec.files == 1) {
    parent.write(name + "/model.safetensors", file_of(specs[0], data));
    return weights;
  }
  for (std::size_t file = 0; file < spec.files; ++file) {
    parent.write(fmt::format("{}/part-{}.safetensors", name, file), file_of(specs[file], data));
  }
  parent.write(name + "/model.safetensors.index.json",
               nlohmann::json{{"metadata", nlohmann::json::object()}, {"weight_map", map}}.dump());
  return weights;
}

}  // namespace ultra::test
