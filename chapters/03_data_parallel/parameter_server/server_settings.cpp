#include "chapters/03_data_parallel/parameter_server/server_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/numeric.hpp"
#include "common/train/run/text_messages.hpp"

namespace ultra::data_parallel {
namespace {

constexpr int kPushChannel = 0;
constexpr int kPullChannel = 1;

/// Counts up from step to step, and wraps: messages under way are close in number.
std::uint32_t message_number(const ServedModel& model, std::size_t step, std::size_t slice) {
  return static_cast<std::uint32_t>(step * model.slices.size() + slice);
}

std::string to_text(const std::vector<ServedParameter>& parameters) {
  Json all = Json::array();
  for (const ServedParameter& parameter : parameters) {
    all.push_back(Json::array({parameter.name, parameter.count, parameter.decays}));
  }
  return all.dump();
}

std::vector<ServedParameter> from_text(const std::string& text) {
  std::vector<ServedParameter> parameters;
  for (const Json& one : Json::parse(text).elements()) {
    parameters.push_back({.name = one[0].get<std::string>(),
                          .count = one[1].get<std::size_t>(),
                          .decays = one[2].get<bool>()});
  }
  return parameters;
}

}  // namespace

std::vector<Slice> slice_parameters(std::span<const std::size_t> counts, std::size_t capacity,
                                    int servers) {
  ensure(servers >= 1, "somebody keeps the weights");
  std::vector<std::size_t> load(checked_cast<std::size_t>(servers), 0);
  std::vector<Slice> slices;
  for (std::size_t parameter = 0; parameter < counts.size(); ++parameter) {
    const std::size_t count = counts[parameter];
    const std::size_t pieces = capacity == 0 ? 1 : ceil_div(count, capacity);
    const std::size_t size = ceil_div(count, std::max<std::size_t>(pieces, 1));
    for (std::size_t begin = 0; begin < count; begin += size) {
      const Range elements{begin, std::min(begin + size, count)};
      const auto least = std::ranges::min_element(load);
      *least += elements.size();
      slices.push_back({.parameter = parameter,
                        .elements = elements,
                        .server = checked_cast<int>(least - load.begin())});
    }
  }
  return slices;
}

std::vector<std::size_t> slices_of_server(std::span<const Slice> slices, int server) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].server == server) own.push_back(i);
  }
  return own;
}

Tensor elements_of(const Slice& slice, const Tensor& parameter) {
  return parameter.view({parameter.numel()}).slice(0, slice.elements);
}

std::string_view to_string(Priority priority) {
  switch (priority) {
    case Priority::kNone:
      return "none";
    case Priority::kWaitFree:
      return "wait-free";
    case Priority::kPriority:
      return "priority";
  }
  return "?";
}

ServerWorld make_server_world(const Communicator& world, const ServerSettings& settings) {
  if (settings.servers < 1 || settings.servers >= world.size()) {
    throw ConfigError(
        fmt::format("{} servers in a world of {} ranks: there must be at least one server, and one "
                    "rank that is a replica",
                    settings.servers, world.size()));
  }
  const auto is_server = [&](int rank) { return rank >= world.size() - settings.servers; };
  return {.world = world,
          .group = world.split(is_server, is_server(world.rank()) ? "servers" : "dp"),
          .settings = settings};
}

std::size_t ServedModel::total() const {
  std::size_t sum = 0;
  for (const ServedParameter& parameter : parameters) sum += parameter.count;
  return sum;
}

ServedModel share_model(const ServerWorld& servers, const std::vector<ServedParameter>& own) {
  const bool tells = servers.world.rank() == 0;
  ServedModel model;
  model.parameters =
      from_text(train::broadcast_text(servers.world, tells ? to_text(own) : std::string()));
  std::vector<std::size_t> counts;
  for (const ServedParameter& parameter : model.parameters) counts.push_back(parameter.count);
  model.slices =
      slice_parameters(counts, servers.settings.slice_capacity, servers.settings.servers);
  return model;
}

MessageName push_name(const ServedModel& model, std::size_t step, std::size_t slice) {
  return {.channel = kPushChannel, .number = message_number(model, step, slice)};
}

MessageName pull_name(const ServedModel& model, std::size_t step, std::size_t slice) {
  return {.channel = kPullChannel, .number = message_number(model, step, slice)};
}

}  // namespace ultra::data_parallel
