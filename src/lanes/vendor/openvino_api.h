// The part of OpenVINO's C interface that this program uses, declared here so that its headers need
// not be installed. Element types have other numbers in other versions: so they are not declared
// here but read from ports when the library is loaded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troika::lanes::openvino {

struct Core;           // ov_core_t
struct Model;          // ov_model_t
struct CompiledModel;  // ov_compiled_model_t
struct Request;        // ov_infer_request_t
struct Tensor;         // ov_tensor_t
struct Port;           // ov_output_const_port_t

struct Shape {  // ov_shape_t, by value
  int64_t rank;
  int64_t* sizes;
};

struct Version {  // ov_version_t
  const char* build_number;
  const char* description;
};

struct DeviceList {  // ov_available_devices_t
  char** names;
  size_t n;
};

using Status = int;       // ov_status_e
using ElementType = int;  // ov_element_type_e

struct Api {
  Status (*get_version)(Version*);
  void (*free_version)(Version*);
  // Returns the message that was kept last, of whichever thread, for free_text to free; null where
  // none is kept: some failures keep none, and who frees a core drops the one that there is.
  const char* (*last_error)();

  Status (*create_core)(Core**);
  void (*free_core)(Core*);
  Status (*list_devices)(const Core*, DeviceList*);
  void (*free_devices)(DeviceList*);
  // Sets one property. A key and its value stand behind the device's name.
  Status (*set_property)(const Core*, const char* device, ...);
  Status (*get_property)(const Core*, const char* device, const char* key, char** value);
  void (*free_text)(const char*);

  Status (*read_model)(const Core*, const char* text, size_t length, const Tensor* constants,
                       Model**);
  void (*free_model)(Model*);
  Status (*model_input)(const Model*, size_t index, Port**);
  Status (*port_type)(const Port*, ElementType*);
  void (*free_port)(Port*);

  // Compiles a model. `n_properties` arguments stand behind the compiled model.
  Status (*compile)(const Core*, const Model*, const char* device, size_t n_properties,
                    CompiledModel**, ...);
  Status (*import)(const Core*, const char* bytes, size_t n_bytes, const char* device,
                   CompiledModel**);
  Status (*export_to)(const CompiledModel*, const char* path);
  void (*free_compiled)(CompiledModel*);

  Status (*create_request)(const CompiledModel*, Request**);
  void (*free_request)(Request*);
  Status (*set_input)(Request*, size_t index, const Tensor*);
  Status (*set_output)(Request*, size_t index, const Tensor*);
  Status (*infer)(Request*);

  Status (*create_tensor)(ElementType, Shape, Tensor**);
  Status (*create_tensor_at)(ElementType, Shape, void* address, Tensor**);
  Status (*tensor_data)(const Tensor*, void** address);
  void (*free_tensor)(Tensor*);
};

inline constexpr Status kOk = 0;

}  // namespace troika::lanes::openvino
