// SPDX-License-Identifier: Apache-2.0
// look.go: the same; cgo reads the header itself
package main

// #cgo pkg-config: coffer
// #include <coffer.h>
// #include <stdlib.h>
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Model is an opened model, for any number of goroutines.
type Model struct{ handle *C.coffer }

func Open(path string) (*Model, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var handle *C.coffer
	var err C.coffer_error
	if C.coffer_open(&handle, name, nil, &err) != C.COFFER_OK {
		return nil, errors.New(C.GoString(&err.message[0]))
	}
	return &Model{handle}, nil
}

// Close ends the model and every slice that Data returned.
func (m *Model) Close() { C.coffer_close(m.handle) }

func (m *Model) Find(name string) *C.coffer_tensor {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return C.coffer_find(m.handle, text, C.size_t(len(name)))
}

// Data is the tensor's bytes, in place in the mapped file.
func (m *Model) Data(tensor *C.coffer_tensor) ([]byte, error) {
	var err C.coffer_error
	bytes := C.coffer_data(m.handle, tensor, &err)
	if bytes == nil {
		return nil, errors.New(C.GoString(&err.message[0]))
	}
	return unsafe.Slice((*byte)(bytes), int(tensor.size)), nil
}

func main() {
	model, err := Open("model.safetensors")
	if err != nil {
		panic(err)
	}
	defer model.Close()
	wte := model.Find("wte.weight")
	bytes, err := model.Data(wte)
	if err != nil {
		panic(err)
	}
	shape := unsafe.Slice((*uint64)(wte.shape), int(wte.rank))
	row := make([]float64, 4)
	C.coffer_decode(wte.dtype, unsafe.Pointer(&bytes[0]), 0, C.size_t(len(row)), (*C.double)(&row[0]))
	fmt.Println(shape, len(bytes), row)
	_, err = Open("none.safetensors")
	fmt.Println(err)
}
