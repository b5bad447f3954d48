#pragma once
/// @file
/// NcclGroup: a group of ranks whose GPUs NCCL has connected.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/comm/backend/nccl/nccl_library.hpp"
#include "common/comm/transport.hpp"
#include "common/gpu/streams.hpp"
#include "common/tensor/device.hpp"

namespace ultra::comm::nccl {

/// @brief How NCCL is to be used by a rank.
struct Use {
  /// What happens where NCCL cannot connect a group: it is not there, or ranks share a GPU.
  enum class Otherwise : std::uint8_t {
    kRefuse,  ///< ConfigError: the transport has no collectives of its own for devices
    kInner,   ///< the transport's own collectives
  };
  Otherwise otherwise = Otherwise::kRefuse;  ///< where it cannot be used
  /// Whether messages go by NCCL: where the transport would take them through the host's memory.
  bool messages = false;
  /// A file that is opened in NCCL's place, and used on emulated devices too: for tests. Empty: NCCL.
  std::string library = {};
};

/// @brief One rank's part of a group that NCCL connects when its first collective comes.
///
/// NCCL refuses two ranks on one GPU, so the members first tell each other where they are. NCCL's
/// kernels wait for each other on the GPU: each group has a stream of its own, or two groups could wait
/// crosswise. All members are called inside the engine's pass.
class NcclGroup {
 public:
  /// Of what members tell each other before they connect, beside the users' named messages, whose channels
  /// end below it. Those of a pair (nccl_transport.cpp) count on from it.
  static constexpr Tag kTag{.use = Tag::Use::kNamed, .lane = Tag::kLanes - 1, .sequence = 0};
  /// The stream of its calls, among the group's own.
  static constexpr auto kRole = gpu::StreamRole::kCommunication;

  /// @param control  of the group; carries what the members tell each other.
  NcclGroup(std::shared_ptr<Transport> control, Use use);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup();

  /// @brief Moves the connecting along; true when the group is connected or cannot be.
  /// @throws ConfigError where it cannot be, with Otherwise::kRefuse; CommError with NCCL's words.
  [[nodiscard]] bool advance(const Device& device);
  /// @brief Whether NCCL connects the group; after advance() has returned true.
  [[nodiscard]] bool is_connected() const { return stage_ == Stage::kConnected; }
  /// @brief Whether NCCL is connecting it: nobody is woken when that has been done.
  [[nodiscard]] bool connects() const { return stage_ == Stage::kConnecting; }
  /// @brief Whom advance() waits for.
  [[nodiscard]] std::string waits_for() const;

  /// @brief NCCL's functions.
  [[nodiscard]] const Library& library() const { return *library_; }
  /// @brief The connected group.
  [[nodiscard]] Comm* comm() const { return comm_; }
  /// @brief The group's own streams, of which it uses that of kRole.
  [[nodiscard]] gpu::Streams& streams() const { return *streams_; }

  /// @brief Whether what was enqueued is in the stream: NCCL's functions return before that.
  /// @throws CommError when NCCL has failed.
  [[nodiscard]] bool is_enqueued() const;
  /// @brief Ends all collectives of the group; no more can follow.
  void abort();

 private:
  enum class Stage : std::uint8_t { kNew, kMeeting, kConnecting, kConnected, kUnusable, kAborted };
  /// What a member tells the others; plain bytes on the wire.
  struct Card {
    std::array<char, 128> why_not;  // NCCL is not there; empty when it is
    std::array<char, 64> host;
    std::array<char, 64> gpu;
    UniqueId id;  // the first member's is used
  };

  void open_library();
  void meet(const Device& device);
  [[nodiscard]] bool have_met();
  [[nodiscard]] std::string why_unusable() const;
  void connect(const Device& device);

  std::shared_ptr<Transport> control_;
  Use use_;
  Stage stage_ = Stage::kNew;
  std::shared_ptr<const Library> library_;
  std::string why_not_;
  std::shared_ptr<std::vector<Card>> cards_;
  std::vector<std::unique_ptr<Request>> sends_;
  std::vector<std::unique_ptr<Request>> receives_;
  std::optional<Device> device_;  // keeps the streams' device alive
  std::unique_ptr<gpu::Streams> streams_;
  Comm* comm_ = nullptr;
};

}  // namespace ultra::comm::nccl
