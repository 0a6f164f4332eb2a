// SPDX-License-Identifier: Apache-2.0
// look.rs: the first row of a matrix, in place in the mapped file
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};

#[repr(C)]
struct Error {
    code: c_int,
    os_error: i32,
    http_status: i32,
    reserved_32: u32,
    offset: u64,
    expected: u64,
    actual: u64,
    message: [c_char; 384],
    path: [c_char; 512],
    tensor: [c_char; 160],
    reserved: [u64; 8],
}
const _: () = assert!(std::mem::size_of::<Error>() == 1160);

/// The fields that exist today; the library may add more at the end, so a tensor is only used by reference.
#[repr(C)]
struct Tensor {
    name: *const c_char,
    shape: *const u64,
    offset: u64,
    size: u64,
    name_len: u32,
    rank: u32,
    dtype: c_int,
    shard: u32,
}

#[repr(C)]
struct Handle {
    _opaque: [u8; 0],
}

#[link(name = "coffer")]
extern "C" {
    fn coffer_open(model: *mut *mut Handle, path: *const c_char, options: *const c_void, err: *mut Error) -> c_int;
    fn coffer_close(model: *mut Handle);
    fn coffer_find(model: *const Handle, name: *const c_char, name_len: usize) -> *const Tensor;
    fn coffer_data(model: *const Handle, tensor: *const Tensor, err: *mut Error) -> *const c_void;
    fn coffer_decode(dtype: c_int, data: *const c_void, first: u64, count: usize, values: *mut f64) -> c_int;
}

/// An opened model: closed when it goes, and used by any number of threads.
struct Model(*mut Handle);

unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { coffer_close(self.0) }
    }
}

fn message(err: &Error) -> String {
    unsafe { CStr::from_ptr(err.message.as_ptr()) }.to_string_lossy().into_owned()
}

impl Model {
    fn open(path: &str) -> Result<Model, String> {
        let path = CString::new(path).map_err(|_| "a path cannot contain NUL".to_string())?;
        let mut handle = std::ptr::null_mut();
        let mut err: Error = unsafe { std::mem::zeroed() };
        match unsafe { coffer_open(&mut handle, path.as_ptr(), std::ptr::null(), &mut err) } {
            0 => Ok(Model(handle)),
            _ => Err(message(&err)),
        }
    }

    fn find(&self, name: &str) -> Option<&Tensor> {
        unsafe { coffer_find(self.0, name.as_ptr().cast(), name.len()).as_ref() }
    }

    /// The tensor's bytes, borrowed from the model.
    fn data(&self, tensor: &Tensor) -> Result<&[u8], String> {
        let mut err: Error = unsafe { std::mem::zeroed() };
        let bytes = unsafe { coffer_data(self.0, tensor, &mut err) };
        if bytes.is_null() {
            return Err(message(&err));
        }
        Ok(unsafe { std::slice::from_raw_parts(bytes.cast(), tensor.size as usize) })
    }
}

fn main() -> Result<(), String> {
    let model = Model::open("model.safetensors")?;
    let wte = model.find("wte.weight").ok_or("no such tensor")?;
    let shape = unsafe { std::slice::from_raw_parts(wte.shape, wte.rank as usize) };
    let bytes = model.data(wte)?;
    let mut row = [0.0; 4];
    unsafe { coffer_decode(wte.dtype, bytes.as_ptr().cast(), 0, row.len(), row.as_mut_ptr()) };
    println!("{:?}, {} bytes, begins with {:?}", shape, bytes.len(), row);
    println!("{}", Model::open("none.safetensors").err().unwrap());
    Ok(())
}
