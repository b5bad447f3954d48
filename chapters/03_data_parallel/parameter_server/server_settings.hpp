#pragma once
/// @file
/// How replicas and parameter servers work together, the ranks that they are, and which server keeps which
/// piece of the weights.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/tensor/shape.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::data_parallel {

/// @brief A piece of one parameter: what is pushed, updated and pulled as one.
struct Slice {
  std::size_t parameter = 0;  ///< its number in forward order
  Range elements{};           ///< of the flattened parameter
  int server = 0;             ///< 0 for the first server
  bool operator==(const Slice&) const = default;
};

/// @brief Cuts parameters into slices and deals them to servers, each to the one with the least.
///
/// A parameter is cut into as few slices as it can be, of about the same size. The first of several
/// equal servers gets one: the same on every rank. Servers end up with as many elements as one
/// another, up to one slice.
/// @param counts    elements of each parameter, in forward order.
/// @param capacity  elements of a slice at most; 0 leaves parameters whole.
/// @param servers   at least 1.
/// @return the slices in forward order: of two, the next forward pass needs the earlier one first.
/// Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server", OSDI;
/// the slices are P3's (Jayarajan et al. 2019, arXiv 1905.03960, section 4.2).
[[nodiscard]] std::vector<Slice> slice_parameters(std::span<const std::size_t> counts,
                                                  std::size_t capacity, int servers);

/// @brief The numbers of a server's slices, in forward order.
[[nodiscard]] std::vector<std::size_t> slices_of_server(std::span<const Slice> slices, int server);

/// @brief What a slice holds of its parameter's values or gradient: [its elements], without a copy.
/// @param parameter  the whole tensor; contiguous, of any shape.
[[nodiscard]] Tensor elements_of(const Slice& slice, const Tensor& parameter);

/// @brief In which order gradients and weights travel.
enum class Priority : std::uint8_t {
  kNone,      ///< pushed after the backward pass; the next step begins when all weights are here
  kWaitFree,  ///< pushed when they are ready; each block waits for its own weights only
  kPriority,  ///< likewise, in slices: those that the next forward pass needs first go first
};

/// @brief "none", "wait-free" or "priority".
[[nodiscard]] std::string_view to_string(Priority priority);

/// @brief What replicas and servers agree on.
struct ServerSettings {
  int servers = 1;                      ///< K, besides the replicas
  Priority priority = Priority::kNone;  ///< in which order things travel
  std::size_t slice_capacity = 0;       ///< elements of a slice; 0 leaves parameters whole
  bool asynchronous = false;            ///< servers apply each replica's gradient as it comes
  std::size_t staleness = 2;  ///< completed steps that a replica may be ahead; asynchronous
};

/// @brief With Priority::kPriority: slices that are on their way at a time, to each receiver of them.
///
/// What is urgent waits for no more than these. One keeps the wire busy while another is delivered; the
/// others bridge the moments until a rank that computes lets its communication thread run.
inline constexpr int kSlicesOnTheirWay = 4;

/// @brief One rank's view of a world of N replicas, ranks 0 to N-1, and K servers after them.
struct ServerWorld {
  Communicator world;       ///< all ranks
  Communicator group;       ///< the replicas ("dp") or the servers: those of this rank's kind
  ServerSettings settings;  ///< the same on every rank

  /// @brief N.
  [[nodiscard]] int replicas() const { return world.size() - settings.servers; }
  /// @brief True on a server.
  [[nodiscard]] bool is_server() const { return world.rank() >= replicas(); }
  /// @brief The world rank of a server, 0 for the first.
  [[nodiscard]] int rank_of_server(int server) const { return replicas() + server; }
};

/// @brief Splits the world. Collective.
/// @throws ConfigError when there is no server, or no rank is left for a replica.
[[nodiscard]] ServerWorld make_server_world(const Communicator& world,
                                            const ServerSettings& settings);

/// @brief A parameter as servers know it: they have no model.
struct ServedParameter {
  std::string name;       ///< for messages and timelines
  std::size_t count = 0;  ///< elements
  bool decays = false;    ///< whether weight decay applies
  bool operator==(const ServedParameter&) const = default;
};

/// @brief The model's parameters in forward order, and how they are dealt to the servers.
struct ServedModel {
  std::vector<ServedParameter> parameters;  ///< all of them
  std::vector<Slice> slices;                ///< all of them, in forward order

  /// @brief Elements of all parameters.
  [[nodiscard]] std::size_t total() const;
};

/// @brief Tells every rank of replica 0's parameters, and deals them out. Collective over the world.
/// @param own  on replica 0; ignored elsewhere.
[[nodiscard]] ServedModel share_model(const ServerWorld& servers,
                                      const std::vector<ServedParameter>& own);

/// @brief The name of the message that brings a slice's gradient to its server.
///
/// Slices overtake each other, so both ends name them.
/// @param step  1 for the first; in step 0, replica 0 brings the values that training begins with.
[[nodiscard]] MessageName push_name(const ServedModel& model, std::size_t step, std::size_t slice);

/// @brief The name of the message that brings a slice's weights to a replica after a step.
[[nodiscard]] MessageName pull_name(const ServedModel& model, std::size_t step, std::size_t slice);

}  // namespace ultra::data_parallel
